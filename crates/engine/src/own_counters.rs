//! Counters that a node keeps itself, beside those that the engine keeps of it.
//!
//! A plan or a kind names them, the node gives their values once a turn, and they lie with the rest
//! of the node's counters in its worker's page. On the data path nothing is allocated here: a value
//! goes to the word of its name. Limit: [`COUNTER_COUNT_MAX`] words; a value without a word is left
//! to the node's last report.

/// Most counters of its own that a node has.
pub const COUNTER_COUNT_MAX: usize = 32;

/// Takes the values that a node counts itself.
#[derive(Debug)]
pub struct CounterSink<'a>(Place<'a>);

#[derive(Debug)]
enum Place<'a> {
    Words {
        names: &'a [String],
        words: &'a mut [u64; COUNTER_COUNT_MAX],
        /// The word that comes next, if values come in the order of the names.
        next: usize,
    },
    List(&'a mut Vec<(&'static str, u64)>),
}

impl<'a> CounterSink<'a> {
    /// Into the words of a page, by their names.
    pub fn live(names: &'a [String], words: &'a mut [u64; COUNTER_COUNT_MAX]) -> Self {
        Self(Place::Words {
            names,
            words,
            next: 0,
        })
    }

    /// Into a list of all that comes.
    pub fn list(list: &'a mut Vec<(&'static str, u64)>) -> Self {
        Self(Place::List(list))
    }

    /// Whether this is the data path: what costs more than a load is given only if it is not.
    pub fn is_live(&self) -> bool {
        matches!(self.0, Place::Words { .. })
    }

    /// The value of one counter.
    #[inline]
    pub fn put(&mut self, name: &'static str, value: u64) {
        match &mut self.0 {
            Place::Words { names, words, next } => {
                let is_name = |at: &usize| names.get(*at).is_some_and(|one| one == name);
                let found = (*next..names.len()).chain(0..*next).find(is_name);
                if let Some((at, word)) = found.and_then(|at| Some((at, words.get_mut(at)?))) {
                    *word = value;
                    *next = at + 1;
                }
            }
            Place::List(list) => list.push((name, value)),
        }
    }

    /// The values of several.
    #[inline]
    pub fn extend(&mut self, values: impl IntoIterator<Item = (&'static str, u64)>) {
        for (name, value) in values {
            self.put(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_the_words_of_their_names_in_any_order() {
        let names = ["a", "b", "b", "c"].map(str::to_owned);
        let mut words = [7; COUNTER_COUNT_MAX];
        let mut sink = CounterSink::live(&names, &mut words);
        sink.extend([("a", 1), ("b", 2), ("b", 3), ("unknown", 9), ("a", 4)]);
        assert_eq!(words[..5], [4, 2, 3, 7, 7]);
    }
}
