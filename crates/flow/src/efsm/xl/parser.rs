//! XL tokens to a tree: all of XL's grammar.
//!
//! Second step of the importer. What cannot be mapped is parsed all the same, and refused later
//! with its line.

use super::XlError;
use super::lexer::Token;

/// A term of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    /// A register, a constant, a state.
    Name(String),
    /// `a.b`.
    Field(String, String),
    /// `a.b[from:+count]`.
    Bytes(String, String, u64, u64),
    /// A number.
    Number(u64),
    /// An address in quotes.
    Address(String),
}

/// A condition.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) left: Term,
    pub(super) sign: &'static str,
    pub(super) right: Term,
}

/// What stands behind `=`.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// One term.
    One(Term),
    /// Two terms and what joins them: a sign, `min` or `max`.
    Two(String, Term, Term),
}

/// An action.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Call(String, Vec<Term>),
    Assign(String, Value),
}

/// An action and its line, in a `serial` block or not.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) action: Action,
}

/// `if (...) {...}`.
#[derive(Clone, Debug)]
pub(super) struct If {
    pub(super) line: usize,
    pub(super) conditions: Vec<Condition>,
    pub(super) body: Vec<Step>,
}

/// `on (...) {...}`.
#[derive(Clone, Debug)]
pub(super) struct On {
    pub(super) line: usize,
    pub(super) event: String,
    pub(super) body: Vec<Step>,
    pub(super) ifs: Vec<If>,
}

/// `State ... {...}`.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) line: usize,
    pub(super) is_initial: bool,
    pub(super) name: String,
    pub(super) body: Vec<Step>,
    pub(super) events: Vec<On>,
}

/// Definitions, of the program or of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    /// Names, whether global, lines.
    pub(super) registers: Vec<(String, bool, usize)>,
    pub(super) events: Vec<(String, Vec<Condition>, usize)>,
    pub(super) macros: Vec<(String, Vec<Step>, usize)>,
}

/// `Stage ... {...}`.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) definitions: Definitions,
    pub(super) body: Vec<Step>,
    pub(super) states: Vec<State>,
}

/// An entry of `PacketField`.
#[derive(Clone, Debug)]
pub(super) struct PacketField {
    pub(super) line: usize,
    pub(super) container: String,
    pub(super) name: String,
    pub(super) from: u64,
    pub(super) count: u64,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) imports: Vec<(String, usize)>,
    pub(super) fields: Vec<PacketField>,
    /// Names, values, lines.
    pub(super) constants: Vec<(String, Term, usize)>,
    pub(super) definitions: Definitions,
    pub(super) stages: Vec<Stage>,
}

/// Parses a file; one that is imported may have neither stages nor states.
pub(super) fn parse(file: &str, tokens: Vec<(Token, usize)>) -> Result<Tree, XlError> {
    let mut parser = Parser {
        file,
        tokens,
        at: 0,
    };
    parser.file()
}

struct Parser<'a> {
    file: &'a str,
    tokens: Vec<(Token, usize)>,
    at: usize,
}

type Parsed<T> = Result<T, XlError>;

impl Parser<'_> {
    fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.peek() {
            Some(Token::Word(word)) => word.clone(),
            Some(Token::Sign(sign)) => (*sign).to_owned(),
            Some(Token::Number(number)) => number.to_string(),
            Some(Token::Quoted(text)) => format!("\"{text}\""),
            Some(Token::Index(..)) => "an index".to_owned(),
            None => "the end".to_owned(),
        };
        let message = format!("{found} stands where {expected} belongs");
        Err(XlError::new(
            self.file,
            self.line(),
            message,
            format!("write {expected}"),
        ))
    }

    fn word(&mut self, expected: &str) -> Parsed<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.fail(expected),
        }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn need(&mut self, sign: &str) -> Parsed<()> {
        if self.takes(sign) {
            Ok(())
        } else {
            self.fail(sign)
        }
    }

    fn file(&mut self) -> Parsed<Tree> {
        let mut tree = Tree::default();
        let mut states = Vec::new();
        let first = self.line();
        while self.peek().is_some() {
            if self.takes_word("import") {
                loop {
                    let line = self.line();
                    match self.peek().cloned() {
                        Some(Token::Quoted(name)) => tree.imports.push((name, line)),
                        _ => return self.fail("a file name in quotes"),
                    }
                    self.at += 1;
                    if !self.takes(",") {
                        break;
                    }
                }
                self.need(";")?;
            } else if self.takes_word("PacketField") {
                self.packet_field(&mut tree)?;
            } else if self.takes_word("Constant") {
                self.constants(&mut tree)?;
            } else if self.takes_word("Stage") {
                let stage = self.stage()?;
                tree.stages.push(stage);
            } else if let Some(state) = self.state()? {
                states.push(state);
            } else if !self.definition(&mut tree.definitions)? {
                return self.fail("a definition, Stage or State");
            }
        }
        if let (Some(stage), Some(_)) = (tree.stages.first(), states.first()) {
            return Err(XlError::new(
                self.file,
                stage.line,
                "a program has stages, or states alone",
                "move the states into a stage",
            ));
        }
        if !states.is_empty() {
            // A program of states alone is one stage.
            tree.stages.push(Stage {
                line: first,
                name: "program".to_owned(),
                definitions: Definitions::default(),
                body: Vec::new(),
                states,
            });
        }
        Ok(tree)
    }

    fn packet_field(&mut self, tree: &mut Tree) -> Parsed<()> {
        let container = self.word("a name")?;
        self.need("{")?;
        while !self.takes("}") {
            let line = self.line();
            let name = self.word("a name")?;
            self.need("=")?;
            let is_data = self.takes_word("packet") && self.takes(".") && self.takes_word("data");
            if !is_data {
                return self.fail("packet.data");
            }
            let Some(Token::Index(from, count)) = self.peek().cloned() else {
                return self.fail("[FROM:+COUNT]");
            };
            self.at += 1;
            self.need(";")?;
            tree.fields.push(PacketField {
                line,
                container: container.clone(),
                name,
                from,
                count,
            });
        }
        Ok(())
    }

    fn constants(&mut self, tree: &mut Tree) -> Parsed<()> {
        loop {
            let line = self.line();
            let name = self.word("a name")?;
            self.need("=")?;
            let at = self.at;
            let value = self.term()?;
            if !matches!(value, Term::Number(_) | Term::Address(_)) {
                self.at = at;
                return self.fail("a number or an address");
            }
            tree.constants.push((name, value, line));
            if !self.takes(",") {
                return self.need(";");
            }
        }
    }

    fn definition(&mut self, into: &mut Definitions) -> Parsed<bool> {
        if self.takes_word("Register") {
            let is_global = self.takes_word("global");
            loop {
                let line = self.line();
                into.registers.push((self.word("a name")?, is_global, line));
                if !self.takes(",") {
                    self.need(";")?;
                    return Ok(true);
                }
            }
        }
        let line = self.line();
        if self.takes_word("Event") {
            let name = self.word("a name")?;
            self.need("=")?;
            let conditions = self.conditions()?;
            self.need(";")?;
            into.events.push((name, conditions, line));
            return Ok(true);
        }
        if self.takes_word("Action") {
            let name = self.word("a name")?;
            self.need("{")?;
            let body = self.body()?;
            self.need("}")?;
            into.macros.push((name, body, line));
            return Ok(true);
        }
        Ok(false)
    }

    fn stage(&mut self) -> Parsed<Stage> {
        let mut stage = Stage {
            line: self.line(),
            name: self.word("a name")?,
            definitions: Definitions::default(),
            body: Vec::new(),
            states: Vec::new(),
        };
        self.need("{")?;
        while !self.takes("}") {
            if let Some(state) = self.state()? {
                stage.states.push(state);
            } else if !self.definition(&mut stage.definitions)? {
                let before = self.at;
                stage.body.extend(self.body()?);
                if self.at == before {
                    return self.fail("a definition, an action or State");
                }
            }
        }
        Ok(stage)
    }

    fn state(&mut self) -> Parsed<Option<State>> {
        let line = self.line();
        if !self.takes_word("State") {
            return Ok(None);
        }
        let is_initial = self.takes_word("initial");
        let name = self.word("a name")?;
        self.need("{")?;
        let body = self.body()?;
        let mut events = Vec::new();
        while !self.takes("}") {
            let line = self.line();
            if !self.takes_word("on") {
                return self.fail("on (EVENT), or }");
            }
            self.need("(")?;
            let event = self.word("an event")?;
            self.need(")")?;
            self.need("{")?;
            let body = self.body()?;
            let mut ifs = Vec::new();
            while !self.takes("}") {
                let line = self.line();
                if !self.takes_word("if") {
                    return self.fail("if (CONDITION), or }");
                }
                self.need("(")?;
                let conditions = self.conditions()?;
                self.need(")")?;
                self.need("{")?;
                let body = self.body()?;
                self.need("}")?;
                ifs.push(If {
                    line,
                    conditions,
                    body,
                });
            }
            events.push(On {
                line,
                event,
                body,
                ifs,
            });
        }
        Ok(Some(State {
            line,
            is_initial,
            name,
            body,
            events,
        }))
    }

    fn conditions(&mut self) -> Parsed<Vec<Condition>> {
        let mut all = Vec::new();
        loop {
            let left = self.term()?;
            let signs = ["==", "<=", ">=", "!=", ">", "<"];
            let Some(sign) = signs.into_iter().find(|sign| self.takes(sign)) else {
                return self.fail("a comparison");
            };
            let right = self.term()?;
            all.push(Condition { left, sign, right });
            if !self.takes(",") {
                return Ok(all);
            }
        }
    }

    /// Actions, up to whatever is none.
    fn body(&mut self) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.takes_word("serial") {
                self.need("{")?;
                while !self.takes("}") {
                    let step = self.step()?;
                    steps.push(step);
                }
                continue;
            }
            let is_keyword = |word: &str| {
                ["on", "if", "State", "Stage", "Register", "Event", "Action"].contains(&word)
            };
            match self.peek() {
                Some(Token::Word(word)) if !is_keyword(word) => {
                    let step = self.step()?;
                    steps.push(step);
                }
                _ => return Ok(steps),
            }
        }
    }

    fn step(&mut self) -> Parsed<Step> {
        let line = self.line();
        let name = self.word("an action")?;
        let action = if self.takes("(") {
            let mut terms = Vec::new();
            while !self.takes(")") {
                terms.push(self.term()?);
                self.takes(",");
            }
            Action::Call(name, terms)
        } else {
            self.need("=")?;
            Action::Assign(name, self.value()?)
        };
        self.need(";")?;
        Ok(Step { line, action })
    }

    fn value(&mut self) -> Parsed<Value> {
        for name in ["min", "max"] {
            if self.takes_word(name) {
                self.need("(")?;
                let one = self.term()?;
                self.need(",")?;
                let other = self.term()?;
                self.need(")")?;
                return Ok(Value::Two(name.to_owned(), one, other));
            }
        }
        let one = self.term()?;
        let sign = ["+", "-", "*", "/", "%"]
            .into_iter()
            .find(|sign| self.takes(sign));
        Ok(match sign {
            Some(sign) => Value::Two(sign.to_owned(), one, self.term()?),
            None => Value::One(one),
        })
    }

    fn term(&mut self) -> Parsed<Term> {
        let token = self.peek().cloned();
        match token {
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(Term::Number(number))
            }
            Some(Token::Quoted(text)) => {
                self.at += 1;
                Ok(Term::Address(text))
            }
            Some(Token::Word(name)) => {
                self.at += 1;
                if !self.takes(".") {
                    return Ok(Term::Name(name));
                }
                let field = self.word("a field")?;
                if let Some(Token::Index(from, count)) = self.peek().cloned() {
                    self.at += 1;
                    return Ok(Term::Bytes(name, field, from, count));
                }
                Ok(Term::Field(name, field))
            }
            _ => self.fail("a term"),
        }
    }
}
