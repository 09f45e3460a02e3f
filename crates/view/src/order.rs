//! The order of tables: parents before those that refer to them.

use crate::schema::Table;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

/// Puts parents before the tables that refer to them. The ranges refer to each other in circles.
pub fn in_order(tables: Vec<Table>) -> (Vec<Table>, Vec<Range<usize>>) {
    let position = |name: &str| tables.iter().position(|table| table.name == name);
    let parents: Vec<BTreeSet<usize>> = tables
        .iter()
        .map(|table| table.foreign_keys.iter().filter_map(|key| position(&key.parent)).collect())
        .collect();
    let mut tables: Vec<Option<Table>> = tables.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(tables.len());
    let mut components = Vec::new();
    for members in in_turn(&parents) {
        let start = ordered.len();
        ordered.extend(members.into_iter().filter_map(|i| tables[i].take()));
        components.push(start..ordered.len());
    }
    (ordered, components)
}

/// Strongly connected components of a graph. `parents[i]` are the nodes that must come before `i`.
/// Components come after those of their parents; what the edges leave open is decided by position,
/// inside a component too.
fn in_turn(parents: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let component = assign(parents);
    let count = component.iter().max().map_or(0, |last| last + 1);
    let mut members = vec![Vec::new(); count];
    let mut children = vec![BTreeSet::new(); count];
    let mut waits_for = vec![0usize; count];
    for (node, &own) in component.iter().enumerate() {
        members[own].push(node);
        for &parent in &parents[node] {
            if component[parent] != own && children[component[parent]].insert(own) {
                waits_for[own] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<(usize, usize)>> =
        (0..count).filter(|&c| waits_for[c] == 0).map(|c| Reverse((members[c][0], c))).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse((_, done))) = ready.pop() {
        for &child in &children[done] {
            waits_for[child] -= 1;
            if waits_for[child] == 0 {
                ready.push(Reverse((members[child][0], child)));
            }
        }
        order.push(std::mem::take(&mut members[done]));
    }
    order
}

/// The component of each node, numbered from 0 (Kosaraju: search, then search backwards in the
/// reverse order of finishing).
fn assign(parents: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut children = vec![BTreeSet::new(); parents.len()];
    for (node, above) in parents.iter().enumerate() {
        for &parent in above {
            children[parent].insert(node);
        }
    }
    let mut finished = Vec::new();
    let mut seen = vec![false; parents.len()];
    for start in 0..parents.len() {
        search(start, parents, &mut seen, &mut finished);
    }
    let mut component = vec![0; parents.len()];
    let mut seen = vec![false; parents.len()];
    let mut count = 0;
    for &start in finished.iter().rev() {
        let mut members = Vec::new();
        search(start, &children, &mut seen, &mut members);
        for &node in &members {
            component[node] = count;
        }
        count += usize::from(!members.is_empty());
    }
    component
}

/// Appends what is reached from `start` for the first time, in the order of finishing.
fn search(start: usize, edges: &[BTreeSet<usize>], seen: &mut [bool], finished: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut path = vec![(start, edges[start].iter())];
    while let Some((node, rest)) = path.last_mut() {
        match rest.next() {
            Some(&next) if !std::mem::replace(&mut seen[next], true) => {
                path.push((next, edges[next].iter()));
            }
            Some(_) => {}
            None => {
                finished.push(*node);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(edges: &[(usize, usize)], nodes: usize) -> Vec<Vec<usize>> {
        in_turn(&graph(edges, nodes))
    }

    fn graph(edges: &[(usize, usize)], nodes: usize) -> Vec<BTreeSet<usize>> {
        let mut parents = vec![BTreeSet::new(); nodes];
        for &(child, parent) in edges {
            parents[child].insert(parent);
        }
        parents
    }

    #[test]
    fn parents_come_first_and_cycles_together() {
        assert_eq!(order(&[], 3), [[0], [1], [2]]);
        assert_eq!(order(&[(0, 2), (1, 1)], 3), [[1], [2], [0]]);
        assert_eq!(order(&[(0, 3), (3, 0), (1, 0), (3, 2)], 4), [vec![2], vec![0, 3], vec![1]]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let edges: Vec<_> = (0..20_000).map(|i| (i, i + 1)).collect();
        let order = order(&edges, 20_001);
        assert_eq!(order.first(), Some(&vec![20_000]));
        assert_eq!(order.len(), 20_001);
    }

    proptest! {
        #[test]
        fn every_node_once_and_components_are_mutual(
            edges in proptest::collection::vec((0usize..8, 0usize..8), 0..16)
        ) {
            let parents = graph(&edges, 8);
            let mut reach = [[false; 8]; 8];
            for &(child, parent) in &edges {
                reach[child][parent] = true;
            }
            for via in 0..8 {
                for from in 0..8 {
                    for to in 0..8 {
                        reach[from][to] |= reach[from][via] && reach[via][to];
                    }
                }
            }
            let order = in_turn(&parents);
            let mut place = [usize::MAX; 8];
            for (i, members) in order.iter().enumerate() {
                for &node in members {
                    prop_assert_eq!(std::mem::replace(&mut place[node], i), usize::MAX);
                }
            }
            for from in 0..8 {
                for to in 0..8 {
                    let together = from == to || reach[from][to] && reach[to][from];
                    prop_assert_eq!(together, place[from] == place[to]);
                    prop_assert!(!reach[from][to] || place[to] <= place[from]);
                }
            }
        }
    }
}
