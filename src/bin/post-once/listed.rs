//! An operation of a journal, on one line.

use std::time::Duration;

use post_once::journal::{Record, State};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::args::Format;

/// One operation. Serializes as the object of `--output json`.
pub(crate) struct Listed<'a> {
    pub(crate) record: &'a Record,
    /// Where it stands now.
    pub(crate) state: State,
}

impl<'a> Listed<'a> {
    /// As it was read.
    pub(crate) fn of(record: &'a Record) -> Listed<'a> {
        Listed { record, state: record.state_now() }
    }

    /// The line, with its end.
    pub(crate) fn line(&self, format: Format) -> String {
        match format {
            Format::Json => {
                let object = serde_json::to_string(self);
                format!("{}\n", object.expect("names and numbers are of JSON"))
            }
            Format::Text => {
                let Record { draft, ages, .. } = self.record;
                let name = draft.name.as_deref().unwrap_or("-");
                let left = self.record.window_left();
                let left = left.map_or("-".to_owned(), |left| format!("{} left", whole(left)));
                let (key, state, age) = (&draft.key, self.state, whole(ages.created));
                format!("{key}  {name}  {state}  {age} old  {left}\n")
            }
        }
    }
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("key", &self.record.draft.key)?;
        map.serialize_entry("operation", &self.record.draft.name)?;
        map.serialize_entry("state", self.state.as_str())?;
        map.serialize_entry("age_s", &self.record.ages.created.as_secs())?;
        let left = self.record.window_left();
        map.serialize_entry("window_left_s", &left.map(|left| left.as_secs()))?;
        map.end()
    }
}

/// A time in whole seconds.
pub(crate) fn whole(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}
