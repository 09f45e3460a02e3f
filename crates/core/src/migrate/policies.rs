//! Policies that are set here, or come from another site, and what rows show under them.

use super::{catch_up, follow};
use crate::closed::ClosedBy;
use crate::merge::Anew;
use crate::meta::{SITE, SiteNames};
use crate::policy::{Policies, Policy};
use crate::schema::{self, Selection};
use crate::state::sums;
use crate::work::Work;
use crate::{Error, Result, settings, state};
use synqlite_wire::Setting;

/// Sets policies, as replicated writes.
pub(crate) fn set(work: &mut Work<'_>, policies: &[Policy], now: i64) -> Result<()> {
    work.settled = false;
    work.policies.add(policies);
    if !policies.is_empty() {
        work.meta.local_seq += 1;
    }
    let mut set = Policies::default();
    set.add(policies);
    policies.iter().try_for_each(|policy| keeps_rows(work, policy))?;
    schema::read(work.conn, &set, &Selection { strict: true, ..Selection::default() })?;
    for policy in policies {
        settings::check_names(work.conn, policy)?;
        let stamp = work.meta.tick(now);
        let (key, value) = settings::canonical(work.conn, policy)?;
        let setting = Setting { key, value, stamp };
        settings::store(work.conn, &mut work.meta, &setting)?;
    }
    let schema = schema::read(work.conn, &work.policies, &Selection::default())?;
    for policy in policies {
        let (key, value) = (policy.key().to_owned(), policy.value().to_owned());
        if let Some((_, why)) = schema.idle.iter().find(|(idle, _)| *idle == key) {
            return Err(Error::Policy { key, value, why: why.clone() });
        }
    }
    Ok(())
}

/// Refuses to take a table out of synchronization while rows of it are hidden: they would go with it, and
/// nobody would be told.
fn keeps_rows(work: &Work<'_>, policy: &Policy) -> Result<()> {
    let local = Policies::from_iter([(policy.key().to_owned(), policy.value().to_owned())]);
    for name in local.list("local_tables") {
        let Some(t) = work.catalog.by_name(name) else { continue };
        let sql = "SELECT 1 FROM synqlite_row WHERE +tbl = ?1 AND kind IS NOT NULL AND loc IS NULL";
        if work.conn.prepare_cached(sql)?.exists([t.no])? {
            let (key, value) = (policy.key().to_owned(), policy.value().to_owned());
            let why = format!(
                "rows of {0} that conflicts hide would be lost; settle first what \
                 `synqlite conflicts DATABASE --table {0}` lists",
                t.table.name
            );
            return Err(Error::Policy { key, value, why });
        }
    }
    Ok(())
}

/// Takes over settings of another site.
pub(crate) fn take(work: &mut Work<'_>, settings: &[Setting]) -> Result<()> {
    let (mut news, mut names) = (false, false);
    for setting in settings {
        let stored = settings::store(work.conn, &mut work.meta, setting)?;
        match setting.key.starts_with(SITE) {
            true => names |= stored,
            false => news |= stored,
        }
    }
    if names {
        // Changes nothing that rows show; but what is told from here on names sites.
        work.meta.names = SiteNames::load(work.conn, work.meta.site)?;
    }
    if news {
        work.settled = false;
        work.policies = settings::load(work.conn)?;
        work.received = true;
        follow_policies(work)?;
        work.received = false;
    }
    Ok(())
}

/// Catches up with policies that changed.
pub(crate) fn follow_policies(work: &mut Work<'_>) -> Result<()> {
    let Work { conn, meta, catalog, policies, .. } = work;
    // What a fold or a merge has written until now is no write that nobody noticed.
    sums::settle(conn, meta, catalog)?;
    if !policies.enforces_foreign_keys() {
        catalog.tables.iter().try_for_each(|t| state::expand(conn, meta, t, true))?;
    }
    catch_up(work)?;
    let references = work.catalog.tables.iter().map(|t| t.no).collect();
    follow(work, &Anew { references, ..Anew::default() }, ClosedBy::Policy)
}
