//! Whatever the bytes of a chain file are: an answer, never a panic, and always the same.

use proptest::prelude::*;

use super::check_text;
use super::right::FULL;

/// Pieces of chain files, right and wrong.
const PIECES: &[&str] = &[
    "name: x\n",
    "ports:\n",
    "nfs:\n",
    "links:\n",
    "run:\n",
    "  in: { pcap: { read: a } }\n",
    "  out: { pcap: { write: b } }\n",
    "  a: { type: macswap }\n",
    "  t: { type: tee }\n",
    "  m: { type: merge, mode: inline }\n",
    "  - in -> a -> out\n",
    "  - t.x -> m\n",
    "  - m -> m\n",
    "  - { link: in -> t, trust: ro }\n",
    "  - { link: t -> out, slots: 7 }\n",
    "  mode: inline\n",
    "  - &x [ *x ]\n",
    "  <<: *x\n",
    "  ? ",
    "  - ",
    " -> ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|\n",
    "\t",
    "é",
    "\u{0}",
    "\"\\e[2J\": ",
    "#",
    "&x ",
    "*x",
    "!!int ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "1e999",
    "~",
    "\n",
];

/// Positions lie within the text, and errors have words.
fn check_answer(text: &str) -> Result<(), TestCaseError> {
    let answer = check_text(text);
    let Err(errors) = &answer else { return Ok(()) };
    prop_assert!(!errors.errors.is_empty());
    let line_count = text.lines().count().max(1) + 1;
    for error in &errors.errors {
        prop_assert!(error.at.line as usize <= line_count, "{error}");
        prop_assert!(!error.message.is_empty() && !error.repair.is_empty());
        let told = error.to_string();
        prop_assert!(
            !told.contains(|c: char| c.is_control() && c != '\n'),
            "{told:?}"
        );
    }
    prop_assert!(errors.errors.is_sorted_by_key(|error| error.at));
    let again = check_text(text).err();
    prop_assert_eq!(answer.as_ref().err(), again.as_ref());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        check_answer(&text)?;
    }

    #[test]
    fn any_sequence_of_pieces_is_answered(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
    ) {
        check_answer(&pieces.concat())?;
    }

    #[test]
    fn a_damaged_file_is_answered(
        cuts in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(PIECES), 0_usize..12),
            1..6,
        ),
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        for (index, piece, removed) in cuts {
            let start = index.index(text.len());
            let end = (start + removed).min(text.len());
            text.splice(start..end, piece.chars());
        }
        check_answer(&text.into_iter().collect::<String>())?;
    }
}
