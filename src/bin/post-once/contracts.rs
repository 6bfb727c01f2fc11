//! `post-once contracts`.

use std::time::Duration;

use comfy_table::{Table, presets};
use post_once::Contract;
use post_once::contract::Carrier;
use serde_json::{Value, json};

use crate::args::{ContractsArgs, Format};
use crate::exit::Exit;
use crate::output::print;

/// Lists the presets.
pub(crate) fn run(args: &ContractsArgs) -> Exit {
    let listed = match args.shown.output {
        Format::Text => table(),
        Format::Json => {
            Value::from_iter(Contract::presets().map(|preset| object(&preset))).to_string()
        }
    };
    print(format!("{listed}\n").as_bytes(), Exit::Success)
}

fn table() -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["NAME", "CARRIER", "FORMAT", "WINDOW", "KEYS"]);
    for preset in Contract::presets() {
        let carrier = match preset.carrier() {
            Carrier::Header(name) => format!("header {name}"),
            Carrier::Member(name) => format!("member {name}"),
            other => format!("{other:?}"),
        };
        let by_path = preset.windows_by_path();
        let by_path = by_path.map(|(path, window)| format!("{path} {}", shown(window.length())));
        let windows: Vec<_> =
            std::iter::once(default_window(&preset).map_or("for ever".into(), shown))
                .chain(by_path)
                .collect();
        table.add_row([
            preset.name().to_owned(),
            carrier,
            preset.format().to_string(),
            windows.join("\n"),
            preset.keys().to_string(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

fn object(preset: &Contract) -> Value {
    let (carrier, field) = match preset.carrier() {
        Carrier::Header(name) => ("header", name.to_string()),
        Carrier::Member(name) => ("member", name.to_string()),
        other => ("other", format!("{other:?}")),
    };
    let by_path = preset.windows_by_path();
    let by_path = by_path.map(|(path, window)| (path.to_owned(), window.length().as_secs().into()));
    json!({
        "name": preset.name(),
        "carrier": carrier,
        "field": field,
        "format": preset.format().name(),
        "window_s": default_window(preset).map(|window| window.as_secs()),
        "window_s_by_path": Value::Object(by_path.collect()),
        "keys": preset.keys().to_string(),
    })
}

/// The window of every path that has none of its own: no path covers the empty one.
fn default_window(preset: &Contract) -> Option<Duration> {
    preset.window_for("").map(|window| window.length())
}

/// `24h`, `30m`, `45d`: the largest unit that divides it, days from two on.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        s if s % 86_400 == 0 && s > 86_400 => format!("{}d", s / 86_400),
        s if s % 3_600 == 0 => format!("{}h", s / 3_600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_shown_in_its_largest_unit() {
        for (seconds, expected) in
            [(86_400, "24h"), (30 * 86_400, "30d"), (10_800, "3h"), (1_800, "30m"), (90, "90s")]
        {
            assert_eq!(shown(Duration::from_secs(seconds)), expected);
        }
    }
}
