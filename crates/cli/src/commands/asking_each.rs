//! Asking several chains at once: what `control` does for `list`, and for names left out.

/// Most chains that are asked at once.
const ASKED_AT_ONCE: usize = 64;

/// Does the same for each chain, for several at once: one that is silent keeps few waiting.
pub(super) fn of_each<T: Send>(
    names: Vec<String>,
    ask: impl Fn(&str) -> T + Sync,
) -> Vec<(String, T)> {
    let mut answers = Vec::new();
    for names in names.chunks(ASKED_AT_ONCE) {
        answers.extend(std::thread::scope(|scope| {
            let asked = names.iter().map(|name| scope.spawn(|| ask(name)));
            // All begin before the first is waited for.
            let asked: Vec<_> = asked.collect();
            let answers = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
            answers.collect::<Vec<_>>()
        }));
    }
    let answers = names.into_iter().zip(answers);
    answers
        .filter_map(|(name, answer)| Some((name, answer.ok()?)))
        .collect()
}
