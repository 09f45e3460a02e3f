//! Where SynQLite changes go: another replica, a shared folder.
