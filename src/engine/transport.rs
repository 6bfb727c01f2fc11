//! Where the engine sends: the one difference between the client and the middleware.

use http::Extensions;
use reqwest::{Client, Request, Response, Url};
use reqwest_middleware::{ClientWithMiddleware, Next};

use crate::error::Cause;
use crate::retry::Failure;

/// What an attempt is sent through.
#[derive(Clone)]
pub(crate) enum Transport<'a> {
    /// A bare client.
    Client(&'a Client),
    /// A whole stack of middleware, all of which runs for each attempt.
    Stack(&'a ClientWithMiddleware),
    /// What is left of the stack that we are in.
    Next(Next<'a>),
}

impl Transport<'_> {
    /// Sends once.
    pub(super) async fn send(
        &self,
        request: Request,
        url: &Url,
        extensions: &mut Extensions,
    ) -> Result<Response, (Failure, Cause)> {
        match self {
            Transport::Client(client) => client.execute(request).await.map_err(of_client),
            Transport::Stack(stack) => {
                let sent = stack.execute_with_extensions(request, extensions).await;
                sent.map_err(|error| of_stack(error, url))
            }
            Transport::Next(next) => {
                let sent = next.clone().run(request, extensions).await;
                sent.map_err(|error| of_stack(error, url))
            }
        }
    }

    /// Whether middleware runs below us, for which there are extensions to copy.
    pub(super) fn has_extensions(&self) -> bool {
        !matches!(self, Transport::Client(_))
    }
}

fn of_client(error: reqwest::Error) -> (Failure, Cause) {
    (Failure::of_reqwest(&error), Cause::of_client(error))
}

fn of_stack(error: reqwest_middleware::Error, url: &Url) -> (Failure, Cause) {
    (Failure::of_stack(&error), Cause::of_stack(error, url))
}
