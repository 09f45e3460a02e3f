//! The hub as sites see it: over HTTP, on real files.

mod access;
mod bucket;
mod client;
mod events;
mod full;
mod objects;
mod openapi;
mod operation;
mod page;
mod postgres;
mod retire;
mod support;
mod uploads;

/// What every store promises, on those that this thread's labs use.
fn promises() {
    objects::what_is_put_can_be_listed_and_read();
    objects::lists_go_on_where_they_ended();
    objects::large_lists_come_in_parts();
    objects::databases_of_a_place_are_told();
    objects::ranges_are_honoured();
    objects::racing_puts_have_one_winner();
    objects::places_are_kept_apart();
    objects::removed_objects_are_gone();
    uploads::parts_arrive_in_order_and_go_on_after_a_restart();
    uploads::what_is_not_finished_counts_until_it_is_removed();
    events::who_waits_is_woken_by_a_put_to_the_place();
    access::scopes_and_places_bound_a_token();
    access::revoked_and_expired_tokens_are_noticed();
    access::a_token_stores_as_much_as_it_may();
    access::a_token_of_a_site_puts_what_that_site_wrote();
    access::limits_of_a_token_go_before_those_of_the_hub();
    retire::nothing_goes_that_a_known_site_needs();
    retire::a_site_that_was_not_seen_for_long_is_not_waited_for();
    retire::snapshots_that_a_newer_one_covers_go_and_the_newest_stays();
    retire::other_databases_of_the_place_stay();
    retire::of_too_many_sites_those_seen_longest_ago_are_forgotten();
    operation::the_overview_shows_places_sites_and_tokens_but_no_secret();
}
