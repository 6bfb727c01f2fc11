//! PostgreSQL: a schema of our own, its migrations, and a few connections that write in groups.

mod lane;
mod migrate;
mod retry;
mod schema;
mod time;
mod trouble;

pub(crate) use lane::{Lanes, Work};
pub(crate) use migrate::{Component, migrate};
pub(crate) use retry::{Database, Statement};
pub(crate) use schema::Schema;
#[cfg(feature = "client")]
pub(crate) use time::epoch;
pub(crate) use time::{age, ahead, duration, microseconds, now};
pub(crate) use trouble::Trouble;
