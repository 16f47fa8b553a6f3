//! Messages of the scripted SMF and gNB, byte by byte, as scenario files write them.
//!
//! Hexadecimal, in words of whole octets. `[ ... ]` puts the length of what is between in front of
//! it, in two octets, as messages of PFCP and their IEs have it; a wrong length is written in
//! digits. `sequence` is the next sequence number in its three octets, `seid:N` the SEID that the
//! UPF gave session N, `teid:N` the TEID that it chose, `ue:N` the UE's IPv4 address.

use super::Player;

impl Player {
    /// A message as a scenario writes it.
    pub(super) fn raw(&mut self, text: &str) -> Result<Vec<u8>, String> {
        let text = text.replace('[', " [ ").replace(']', " ] ");
        let mut bytes = Vec::new();
        let mut open = Vec::new();
        (self.about, self.asked_count) = (None, 0);
        for word in text.split_whitespace() {
            match word {
                "[" => {
                    open.push(bytes.len());
                    bytes.extend([0; 2]);
                }
                "]" => {
                    let at: usize = open.pop().ok_or("a ] without its [")?;
                    let len = u16::try_from(bytes.len() - at - 2);
                    let len = len.map_err(|_| "what is between [ and ] is too long")?;
                    bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
                }
                "sequence" => {
                    self.sequence += 1;
                    self.asked_count += 1;
                    bytes.extend(&self.sequence.to_be_bytes()[1..]);
                }
                _ => bytes.extend(self.word(word)?),
            }
        }
        match open.is_empty() {
            true => Ok(bytes),
            false => Err("a [ without its ]".to_owned()),
        }
    }

    fn word(&self, word: &str) -> Result<Vec<u8>, String> {
        let Some((name, session)) = word.split_once(':') else {
            let bytes = catena_flow::efsm::hex(word);
            return bytes.ok_or_else(|| format!("{word} is no hexadecimal"));
        };
        let session = session.parse::<u64>();
        let session = session.map_err(|error| format!("{word}: {error}"))?;
        let known = self.known(session)?;
        match name {
            "seid" => Ok(known.up_seid.to_be_bytes().to_vec()),
            "teid" => Ok(known.teid.to_be_bytes().to_vec()),
            "ue" => {
                let address = known.ue.ok_or_else(|| format!("{word}: it has none"))?;
                Ok(address.octets().to_vec())
            }
            _ => Err(format!("{word} is no word of a message")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smf::Known;
    use crate::smf::scenario::Scenario;

    fn player() -> Player {
        let text = "{about: '', smf: 10.4.0.2, n4: 10.4.0.1, ran: 10.3.0.2, n3: 10.3.0.1, \
                    host: 203.0.113.9, steps: []}";
        let mut player = Player::new(Scenario::parse(text).unwrap());
        let known = Known {
            up_seid: 0x0102,
            teid: 0x0304,
            ue: Some([10, 45, 0, 1].into()),
            ..Known::default()
        };
        player.sessions.insert(7, known);
        player
    }

    #[test]
    fn lengths_and_what_only_the_player_knows_are_put_in() {
        let mut player = player();
        let written = player.raw("21[seid:7 sequence 00 [] [aa [bbcc]]]sequence");
        let wanted = "21 0015 0000000000000102 000001 00 0000 0005 aa 0002 bbcc 000002";
        let wanted = catena_flow::efsm::hex(wanted);
        assert_eq!(written.ok(), wanted);
        assert_eq!((player.sequence, player.asked_count), (2, 2));
        let written = player.raw("teid:7 ue:7");
        assert_eq!(written, Ok(vec![0, 0, 3, 4, 10, 45, 0, 1]));
        assert_eq!((player.sequence, player.asked_count), (2, 0));
    }

    #[test]
    fn what_is_no_message_is_said() {
        for (text, says) in [
            ("[ 00", "a [ without its ]"),
            ("00 ]", "a ] without its ["),
            ("0", "0 is no hexadecimal"),
            ("sequences", "sequences is no hexadecimal"),
            ("seid:8", "no session 8"),
            ("seid:x", "seid:x: invalid digit"),
            ("name:7", "name:7 is no word"),
        ] {
            let said = player().raw(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
