//! What the stores of both halves stand on: opening a database, writing to it in groups, and bringing
//! its tables up to date. It knows no operation.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
