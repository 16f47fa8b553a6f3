//! Names of what a program remembers: flows, registers, entries of tables.
//!
//! The second half of `resolve`.

use super::model::{EntryModel, FlowModel, StepModel};
use super::packet::number;
use super::resolve::{EntryWanted, Fault, FlowWanted, Resolving, find, key_of, plainly};
use crate::efsm::model::Text;
use crate::efsm::pattern;
use crate::program::table::{Match, Pattern, TableEntry, TableShape};

impl Resolving<'_, '_> {
    fn element(&self, name: Option<&str>) -> Result<usize, Fault> {
        let elements = self.program.elements.iter().enumerate();
        let with_flows: Vec<(usize, &str)> = elements
            .filter(|(_, one)| one.flows.is_some())
            .map(|(at, one)| (at, &*one.name))
            .collect();
        let names = with_flows.iter().map(|(_, name)| *name);
        match (name, with_flows.as_slice()) {
            (Some(name), _) => Ok(with_flows[find("element with flows", name, names)?].0),
            (None, [(at, _)]) => Ok(*at),
            (None, _) => {
                let names: Vec<&str> = names.collect();
                let repair = format!("add element: {}", names.join(" or "));
                Err(("not one element alone has flows".to_owned(), repair))
            }
        }
    }

    pub(super) fn flows(&mut self, path: &str, model: &StepModel) -> Vec<(String, usize, u32)> {
        let mut all = Vec::new();
        for (name, count) in &model.flows {
            let element = self.element(Some(name));
            let element = self.noted(&format!("{path}.flows"), element);
            all.extend(element.map(|element| (name.clone(), element, *count)));
        }
        all
    }

    pub(super) fn registers(&mut self, path: &str, models: &[FlowModel]) -> Vec<FlowWanted> {
        let mut all = Vec::new();
        for (number, model) in models.iter().enumerate() {
            let path = format!("{path}.registers[{number}]");
            let found = self.flow(model);
            all.extend(self.noted(&path, found));
        }
        all
    }

    fn flow(&self, model: &FlowModel) -> Result<FlowWanted, Fault> {
        let element = self.element(model.element.as_deref())?;
        let of = &self.program.elements[element];
        let key = key_of(Some(of), &model.key)?;
        let mut is = Vec::new();
        if let Some(flows) = &of.flows {
            for (name, value) in &model.is {
                let registers = flows.registers.iter();
                let at = find("register", name, registers.map(|one| &*one.name))?;
                let register = &flows.registers[at];
                let text = value.text();
                let states = flows.states.iter().map(String::as_str);
                let value = match (at, flows.states.is_empty()) {
                    (0, false) => find("state", &text, states)? as u128,
                    _ => number(&text, register.width).map_err(plainly)?,
                };
                is.push((register.clone(), value, text));
            }
        }
        Ok(FlowWanted {
            element,
            key,
            is,
            absent: model.absent,
        })
    }

    pub(super) fn globals(
        &mut self,
        path: &str,
        model: &StepModel,
    ) -> Vec<(String, usize, u32, u64)> {
        let mut all = Vec::new();
        for (name, value) in &model.globals {
            let found = self.global(name, &value.text());
            let found = self.noted(&format!("{path}.globals"), found);
            all.extend(found.map(|(at, index, value)| (name.clone(), at, index, value)));
        }
        all
    }

    /// A register's number, the place in it, and a value for it.
    fn global(&self, name: &str, value: &str) -> Result<(usize, u32, u64), Fault> {
        let (plain, index) = match name.split_once('[') {
            Some((plain, rest)) => {
                let index = rest.strip_suffix(']').and_then(|index| index.parse().ok());
                let wrong = || plainly(format!("\"{name}\" is not written as NAME[NUMBER]"));
                (plain, index.ok_or_else(wrong)?)
            }
            None => (name, 0),
        };
        let globals = &self.program.globals;
        let at = find(
            "global register",
            plain,
            globals.iter().map(|one| &*one.name),
        )?;
        let count = globals[at].count;
        if index >= count {
            return Err(plainly(format!("{plain} has {count} places, from 0")));
        }
        let value = number(value, globals[at].width).map_err(plainly)?;
        Ok((at, index, value as u64))
    }

    pub(super) fn entries(&mut self, path: &str, models: &[EntryModel]) -> Vec<EntryWanted> {
        let mut all = Vec::new();
        for (number, model) in models.iter().enumerate() {
            let found = self.entry(model);
            all.extend(self.noted(&format!("{path}[{number}]"), found));
        }
        all
    }

    fn entry(&self, model: &EntryModel) -> Result<EntryWanted, Fault> {
        let tables = &self.program.tables;
        let at = find("table", &model.table, tables.iter().map(|one| &*one.name))?;
        let shape = &tables[at];
        let key = keys(shape, &model.key)?;
        let mut data = shape.default.clone();
        let mut named = Vec::new();
        for (name, value) in &model.data {
            let names = shape.data.iter().map(|(name, _)| name.as_str());
            let place = find("datum of this table", name, names)?;
            data[place] = number(&value.text(), shape.data[place].1).map_err(plainly)?;
            named.push(place);
        }
        Ok(EntryWanted {
            table: at,
            entry: TableEntry {
                key,
                priority: model.priority,
                data,
            },
            data: named,
            absent: model.absent,
        })
    }
}

fn keys(shape: &TableShape, texts: &[Text]) -> Result<Vec<Pattern>, Fault> {
    if texts.len() != shape.key.len() {
        let count = shape.key.len();
        return Err(plainly(format!(
            "the key of {} has {count} parts",
            shape.name
        )));
    }
    let parts = texts.iter().zip(&shape.key);
    let patterns = parts.map(|(text, (kind, width)): (&Text, &(Match, u8))| {
        pattern(&text.text(), *kind, *width).map_err(plainly)
    });
    patterns.collect()
}
