//! All lines that began with one site, as a tree of points.
//!
//! Which site id a stretch of it goes by is a function of the tree alone, so whoever knows the same
//! points uses the same ids: where a line forks, the branch whose first point has the earliest
//! clock keeps the id, and each other is called after its first point. A tree only grows.

use std::collections::BTreeMap;
use synqlite_wire::line::branch;
use synqlite_wire::{Hlc, Line, Point, SiteId};

/// Lines by the ids under which they are known.
pub type Lines = BTreeMap<SiteId, Line>;

/// Points that go back to one beginning.
#[derive(Clone, Debug)]
pub struct Tree {
    root: SiteId,
    points: BTreeMap<Hlc, Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    before: Hlc,
    births: u64,
}

/// Where a stretch of a line ends, and the site id that it goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Its last point.
    pub end: Point,
    /// Its id.
    pub site: SiteId,
}

impl Tree {
    /// The tree of some lines that began with `root`. Each must go on from one before it, or come
    /// after that in `lines`.
    pub fn new(root: SiteId, lines: &Lines) -> Tree {
        let mut tree = Tree { root, points: BTreeMap::new() };
        let mut left: Vec<&Line> = lines.values().collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|line| !tree.add(line));
            if left.len() == before {
                break;
            }
        }
        tree
    }

    /// Adds a piece of a line. False, and nothing is added, if the point before it is not known, or if it says
    /// that a known point comes after another than it does, or that births were fewer later: one clock is given
    /// once, and births are counted, so somebody made it up.
    pub fn add(&mut self, line: &Line) -> bool {
        let mut before = line.before;
        if before != Hlc::ZERO && !self.points.contains_key(&before) {
            return false;
        }
        let mut births = self.points.get(&before).map_or(0, |node| node.births);
        for point in &line.points {
            let known = self.points.get(&point.clock).map(|node| node.births);
            let counted = known.unwrap_or(point.births);
            if counted < births {
                return false;
            }
            births = counted;
        }
        let befores = std::iter::once(before).chain(line.points.iter().map(|point| point.clock));
        let mut steps = line.points.iter().zip(befores);
        if !steps.all(|(at, before)| self.points.get(&at.clock).is_none_or(|n| n.before == before))
        {
            return false;
        }
        for &Point { clock, births } in &line.points {
            self.points.entry(clock).or_insert(Node { before, births });
            before = clock;
        }
        true
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// The lines, each under its id.
    pub fn lines(&self) -> Lines {
        let mut after: BTreeMap<Hlc, Vec<Hlc>> = BTreeMap::new();
        self.points.iter().for_each(|(clock, n)| after.entry(n.before).or_default().push(*clock));
        let mut lines = Lines::new();
        let next = |at: Hlc| after.get(&at).map_or(&[][..], Vec::as_slice);
        let mut starts: Vec<(SiteId, Hlc, Hlc)> = Vec::new();
        let forks = |at: Hlc, starts: &mut Vec<_>| {
            let others = next(at).iter().skip(1);
            starts.extend(others.map(|&first| (branch(self.root, first), at, first)));
        };
        starts.extend(next(Hlc::ZERO).first().map(|&first| (self.root, Hlc::ZERO, first)));
        forks(Hlc::ZERO, &mut starts);
        while let Some((site, before, first)) = starts.pop() {
            let (mut points, mut at) = (Vec::new(), Some(first));
            while let Some(clock) = at {
                let births = self.points.get(&clock).map_or(0, |node| node.births);
                points.push(Point { clock, births });
                forks(clock, &mut starts);
                at = next(clock).first().copied();
            }
            lines.insert(site, Line { root: self.root, before, points });
        }
        lines
    }

    /// The way to a point: its stretches from the beginning. Empty if the point is not known.
    pub fn way(&self, to: Hlc) -> Vec<Stretch> {
        let of: BTreeMap<Hlc, SiteId> = self
            .lines()
            .iter()
            .flat_map(|(site, line)| line.points.iter().map(|point| (point.clock, *site)))
            .collect();
        let (mut way, mut at): (Vec<Stretch>, Hlc) = (Vec::new(), to);
        while let (Some(node), Some(&site)) = (self.points.get(&at), of.get(&at)) {
            if way.last().is_none_or(|last| last.site != site) {
                way.push(Stretch { end: Point { clock: at, births: node.births }, site });
            }
            at = node.before;
        }
        way.reverse();
        way
    }

    /// How many points lead to one, itself among them.
    pub fn depth(&self, to: Hlc) -> usize {
        let step = |at: &Hlc| self.points.get(at).map(|node| node.before);
        std::iter::successors(Some(to), step).take_while(|at| *at != Hlc::ZERO).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_wire::Id;

    const ROOT: SiteId = Id([7; 16]);

    fn line(before: i64, clocks: &[i64]) -> Line {
        let point = |&clock: &i64| Point { clock: Hlc(clock), births: clock as u64 / 10 };
        Line { root: ROOT, before: Hlc(before), points: clocks.iter().map(point).collect() }
    }

    fn tree(pieces: &[(i64, &[i64])]) -> Tree {
        let mut tree = Tree::new(ROOT, &Lines::new());
        pieces.iter().for_each(|(before, clocks)| assert!(tree.add(&line(*before, clocks))));
        tree
    }

    #[test]
    fn a_point_comes_after_one_other() {
        let mut tree = tree(&[(0, &[10, 20, 30])]);
        let before = tree.lines();
        assert!(!tree.add(&line(0, &[20, 40])), "20 comes after 10");
        assert!(!tree.add(&line(10, &[15, 30])), "30 comes after 20");
        let point = Point { clock: Hlc(40), births: 2 };
        assert!(!tree.add(&Line { root: ROOT, before: Hlc(30), points: vec![point] }), "3 before");
        assert_eq!(tree.lines(), before);
        assert!(tree.add(&line(10, &[20, 25])) && tree.lines() != before);
    }

    #[test]
    fn ids_depend_on_the_points_and_not_on_the_order_in_which_they_came() {
        let pieces: [(i64, &[i64]); 4] =
            [(0, &[10, 20]), (20, &[50]), (10, &[15, 60]), (20, &[40])];
        let lines = tree(&pieces).lines();
        let (kept, late, mid) = (ROOT, branch(ROOT, Hlc(50)), branch(ROOT, Hlc(20)));
        assert_eq!(
            lines.keys().copied().collect::<std::collections::BTreeSet<_>>(),
            [kept, late, mid].into()
        );
        assert_eq!(lines[&kept], line(0, &[10, 15, 60]));
        assert_eq!(lines[&mid], line(10, &[20, 40]));
        assert_eq!(lines[&late], line(20, &[50]));
        let mut other = tree(&[(0, &[10, 15, 60])]);
        assert!(!other.add(&line(20, &[40])));
        assert!(other.add(&line(10, &[20, 50])) && other.add(&line(20, &[40])));
        assert_eq!(other.lines(), lines);
        assert_eq!(Tree::new(ROOT, &lines).lines(), lines);
    }

    #[test]
    fn a_way_names_each_stretch_once() {
        let tree = tree(&[(0, &[10, 20, 50, 70]), (10, &[15]), (20, &[40])]);
        let way = tree.way(Hlc(70));
        let sites: Vec<_> = way.iter().map(|s| (s.end.clock.0, s.site)).collect();
        let (mid, late) = (branch(ROOT, Hlc(20)), branch(ROOT, Hlc(50)));
        assert_eq!(sites, [(10, ROOT), (20, mid), (70, late)]);
        assert_eq!((tree.depth(Hlc(70)), tree.len()), (4, 6));
        assert_eq!((tree.way(Hlc(71)), tree.depth(Hlc(71))), (vec![], 1));
    }

    #[test]
    fn a_line_may_fork_before_its_first_point() {
        let lines = tree(&[(0, &[30]), (0, &[20, 40])]).lines();
        assert_eq!(lines[&ROOT], line(0, &[20, 40]));
        assert_eq!(lines[&branch(ROOT, Hlc(30))], line(0, &[30]));
    }
}
