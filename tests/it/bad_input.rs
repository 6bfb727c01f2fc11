//! Input that nobody should give, and answers that nobody should send: a clear error or the documented
//! behaviour, nothing sent that should not be, and never a panic.

mod answers;
mod keys;
mod requests;
