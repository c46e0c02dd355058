//! A client of a service.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use ureq::Agent;

use super::users::basic_header;
use super::xml_rpc::{self, MethodResponse};

/// The largest response in bytes.
const LARGEST_RESPONSE: u64 = 256 << 20;

/// Calls methods of a service by XML-RPC.
#[derive(Clone, Debug)]
pub struct RpcClient {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

/// Why a call failed.
#[derive(Debug)]
pub enum CallError {
    /// The service answered with a fault.
    Fault(anyhow::Error),
    /// The service refused the request: a wrong password, or a request that is too large. The same request is refused again.
    Refused(anyhow::Error),
    /// The service was not reached, or its answer was lost.
    Lost(anyhow::Error),
}

impl RpcClient {
    /// For a URL `http://[user:password@]host:port`.
    pub fn new(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!("{url}: a URL begins with http://");
        };
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let host = host.split('/').next().unwrap_or(host);
        Ok(Self {
            agent: agent(Duration::from_secs(60)),
            url: format!("http://{host}/RPC2"),
            authorization: user.map(basic_header),
        })
    }

    /// The same client with another time limit of calls.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { agent: agent(timeout), ..self.clone() }
    }

    /// Calls a method.
    pub fn call(&self, method: &str, parameters: &[Value]) -> Result<Value, CallError> {
        let text = self.post(&xml_rpc::write_call(method, parameters))?;
        match xml_rpc::parse_response(&text) {
            Ok(MethodResponse::Value(value)) => Ok(value),
            Ok(MethodResponse::Fault(message)) => Err(CallError::Fault(anyhow!("{message}"))),
            Err(error) => Err(CallError::Lost(error)),
        }
    }

    fn post(&self, body: &str) -> Result<String, CallError> {
        let mut request = self.agent.post(&self.url).header("Content-Type", "text/xml");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let sent = request.send(body).with_context(|| format!("calling {}", self.url));
        let mut response = sent.map_err(CallError::Lost)?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(LARGEST_RESPONSE).read_to_string();
        match status {
            200 => text.context("reading the response").map_err(CallError::Lost),
            401 => Err(CallError::Refused(anyhow!("{}: HTTP status 401: wrong user or password", self.url))),
            // 408: the request took too long to arrive; 429: too many requests.
            400..=499 if ![408, 429].contains(&status) => {
                let reason: String = text.unwrap_or_default().trim().chars().take(200).collect();
                Err(CallError::Refused(anyhow!("{}: HTTP status {status}: {reason}", self.url)))
            }
            _ => Err(CallError::Lost(anyhow!("{}: HTTP status {status}", self.url))),
        }
    }
}

fn agent(timeout: Duration) -> Agent {
    Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).build().into()
}

impl CallError {
    /// The error in any case.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Fault(error) | Self::Refused(error) | Self::Lost(error) => error,
        }
    }
}
