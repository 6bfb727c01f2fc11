//! The server half: what an API, or a consumer of a queue, needs so that a request that is sent again has one
//! effect.

pub mod answer;
pub mod claim;
pub mod store;
pub mod sweep;

pub use sweep::Sweeper;
