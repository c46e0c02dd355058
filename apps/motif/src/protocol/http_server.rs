//! A small HTTP server: requests are read with limits and handed to a function.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// The largest request body in bytes.
    pub body: usize,
    /// The most connections at the same time.
    pub connections: usize,
    /// The time for a request to arrive.
    pub arrival: Duration,
}

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query string.
    pub query: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The header `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A body of this type.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("Content-Type", content_type.to_owned())], body: body.into() }
    }
}

/// Answers requests.
pub type HttpHandler = Arc<dyn Fn(&HttpRequest) -> HttpResponse + Send + Sync>;

/// Binds an address.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
pub fn serve(listener: TcpListener, limits: HttpLimits, handler: HttpHandler) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .context("starting the HTTP server")?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(limits.connections));
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files: wait until some are closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let handler = Arc::clone(&handler);
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, limits, Arc::clone(&handler)));
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(limits.arrival).max_buf_size(64 << 10);
                // An error of a connection ends the connection only.
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                drop(place);
            });
        }
    })
}

async fn answer(
    request: Request<Incoming>,
    limits: HttpLimits,
    handler: HttpHandler,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut request = HttpRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        authorization: header("authorization"),
        content_type: header("content-type").unwrap_or_default(),
        body: Vec::new(),
    };
    if body.size_hint().lower() > limits.body as u64 {
        return Ok(build(too_large(limits)));
    }
    let collected = tokio::time::timeout(limits.arrival, Limited::new(body, limits.body).collect()).await;
    let response = match collected {
        Err(_) => HttpResponse::new(408, "text/plain", "the request took too long to arrive\n"),
        Ok(Err(_)) => {
            HttpResponse::new(413, "text/plain", format!("a request has at most {} bytes\n", limits.body))
        }
        Ok(Ok(body)) => {
            request.body = body.to_bytes().to_vec();
            let answered = tokio::task::spawn_blocking(move || handler(&request)).await;
            answered.unwrap_or_else(|_| HttpResponse::new(500, "text/plain", "internal error\n"))
        }
    };
    Ok(build(response))
}

fn too_large(limits: HttpLimits) -> HttpResponse {
    HttpResponse::new(413, "text/plain", format!("a request has at most {} bytes\n", limits.body))
}

fn build(response: HttpResponse) -> Response<Full<Bytes>> {
    let mut built = Response::builder().status(response.status);
    for (name, value) in &response.headers {
        built = built.header(*name, value);
    }
    let body = Full::new(Bytes::from(response.body));
    built.body(body).unwrap_or_else(|_| Response::new(Full::new(Bytes::new())))
}
