//! How far along its packets' ways something lies: the order in which things that pass packets on
//! are drained and accounted for.

/// Length of the longest way to `end`, in steps of `ways`, which lead from one number to another.
/// On ways that lead round in a circle it is the number of ways.
pub(crate) fn longest_way(end: usize, ways: &[(usize, usize)]) -> usize {
    let mut front = vec![end];
    for length in 0..ways.len() {
        let before = ways.iter().filter(|(_, to)| front.contains(to));
        front = before.map(|(from, _)| *from).collect();
        if front.is_empty() {
            return length;
        }
    }
    ways.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_several_ways_counts() {
        let ways = [(0, 3), (0, 1), (1, 2), (2, 3), (3, 4)];
        let lengths = [0, 1, 2, 3, 4].map(|end| longest_way(end, &ways));
        assert_eq!(lengths, [0, 1, 2, 3, 4]);
        assert_eq!(longest_way(9, &ways), 0, "nothing leads there");
        assert_eq!(longest_way(0, &[]), 0);
    }

    #[test]
    fn circles_have_an_end() {
        assert_eq!(longest_way(0, &[(0, 1), (1, 0)]), 2);
    }
}
