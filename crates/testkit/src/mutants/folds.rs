//! Repairs of capture and fold that came after those of merges.

use super::Mutant;

/// All of them.
pub const ALL: &[Mutant<'_>] = &[
    Mutant {
        name: "answers",
        file: "core/src/journal/replay.rs",
        from: "    replay.put_answers_right(conn, t)?;\n",
        to: "",
        campaign: "wild --all triggers,keys",
        breaks: "R-TRG: what a trigger made later did is taken for what its statement did",
    },
    Mutant {
        name: "written-early",
        file: "core/src/journal/replay.rs",
        from: "            columns.to_mut().extend(self.written_early(to, at));\n",
        to: "",
        campaign: "wild --all triggers,keys",
        breaks: "R-TRG: what a trigger made later wrote to a row that moved is not captured",
    },
    Mutant {
        name: "former-life",
        file: "view/src/state.rs",
        from: "self.header.fell() && stamps",
        to: "self.header.alive() && stamps",
        campaign: "wild --all keys,told",
        breaks: "R-FK-ACTION: a row falls with its parent unsaid whose former life was deleted later",
    },
];
