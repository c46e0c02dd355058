//! A client of a service.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::Agent;

use super::users::basic_header;
use super::xml_rpc;

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
        let timeout = Some(Duration::from_secs(60));
        let config = Agent::config_builder().timeout_global(timeout).http_status_as_error(false).build();
        Ok(Self {
            agent: config.into(),
            url: format!("http://{host}/RPC2"),
            authorization: user.map(basic_header),
        })
    }

    /// Calls a method.
    pub fn call(&self, method: &str, parameters: &[Value]) -> Result<Value, CallError> {
        let text = self.post(&xml_rpc::write_call(method, parameters)).map_err(CallError::Lost)?;
        let is_fault = text.contains("<fault>");
        let sort = |error| if is_fault { CallError::Fault(error) } else { CallError::Lost(error) };
        xml_rpc::parse_response(&text).map_err(sort)
    }

    fn post(&self, body: &str) -> Result<String> {
        let mut request = self.agent.post(&self.url).header("Content-Type", "text/xml");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut response = request.send(body).with_context(|| format!("calling {}", self.url))?;
        let status = response.status().as_u16();
        if status != 200 {
            bail!(
                "{}: HTTP status {status}{}",
                self.url,
                if status == 401 { ": wrong user or password" } else { "" }
            );
        }
        response
            .body_mut()
            .with_config()
            .limit(LARGEST_RESPONSE)
            .read_to_string()
            .context("reading the response")
    }
}

impl CallError {
    /// The error in any case.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Fault(error) | Self::Lost(error) => error,
        }
    }
}
