//! A small HTTP server: a request is refused by its head where possible, read with limits, and handed to a service.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
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

/// The longest life of a connection; a client that does not read its response is dropped after it.
const LONGEST_CONNECTION: Duration = Duration::from_secs(300);
/// Bodies are counted in blocks of so many bytes.
const BODY_BLOCK: usize = 1 << 10;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// The largest request body in bytes.
    pub body: usize,
    /// The most bytes of request bodies at the same time.
    pub all_bodies: usize,
    /// The most connections at the same time.
    pub connections: usize,
    /// The time for a request to arrive.
    pub arrival: Duration,
}

/// A request.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query string.
    pub query: String,
    /// The header `Host`.
    pub host: String,
    /// The header `Origin`: the page that sends the request, if a page does.
    pub origin: Option<String>,
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
pub trait HttpService: Send + Sync {
    /// Refuses a request by its head, before its body is read.
    fn refuse(&self, head: &HttpRequest) -> Option<HttpResponse>;

    /// Answers a request that was not refused.
    fn answer(&self, request: &HttpRequest) -> HttpResponse;
}

/// Binds an address.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What the connections share.
#[derive(Clone)]
struct SharedState {
    limits: HttpLimits,
    service: Arc<dyn HttpService>,
    bodies: Arc<Semaphore>,
}

/// Serves until the process ends.
pub fn serve(listener: TcpListener, limits: HttpLimits, service: Arc<dyn HttpService>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .context("starting the HTTP server")?;
    let bodies = Arc::new(Semaphore::new(limits.all_bodies.max(limits.body).div_ceil(BODY_BLOCK)));
    let state = SharedState { limits, service, bodies };
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
            let state = state.clone();
            tokio::spawn(async move {
                connection(TokioIo::new(stream), state).await;
                drop(place);
            });
        }
    })
}

/// Serves a connection. An error ends this connection only.
async fn connection(stream: TokioIo<tokio::net::TcpStream>, state: SharedState) {
    let arrival = state.limits.arrival;
    let service = service_fn(move |request| answer(request, state.clone()));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(arrival).max_buf_size(64 << 10);
    let mut connection = pin!(builder.serve_connection(stream, service));
    if tokio::time::timeout(LONGEST_CONNECTION, connection.as_mut()).await.is_err() {
        // The request that is being answered may end.
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(arrival, connection).await;
    }
}

async fn answer(request: Request<Incoming>, state: SharedState) -> Result<Response<Full<Bytes>>, Infallible> {
    let limits = state.limits;
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authority = head.uri.authority().map(ToString::to_string);
    let mut request = HttpRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        host: authority.or_else(|| header("host")).unwrap_or_default(),
        origin: header("origin"),
        authorization: header("authorization"),
        content_type: header("content-type").unwrap_or_default(),
        body: Vec::new(),
    };
    if let Some(refused) = state.service.refuse(&request) {
        return Ok(build(refused));
    }
    let size = body.size_hint();
    if size.lower() > limits.body as u64 {
        return Ok(build(too_large(limits)));
    }
    let largest = size.upper().map_or(limits.body, |upper| (upper as usize).min(limits.body));
    let collected = tokio::time::timeout(limits.arrival, async {
        let blocks = largest.div_ceil(BODY_BLOCK) as u32;
        let room = state.bodies.clone().acquire_many_owned(blocks).await;
        (Limited::new(body, limits.body).collect().await, room)
    });
    let response = match collected.await {
        Err(_) => HttpResponse::new(408, "text/plain", "the request took too long to arrive\n"),
        Ok((Err(_), _)) => too_large(limits),
        Ok((Ok(body), room)) => {
            request.body = body.to_bytes().to_vec();
            let service = Arc::clone(&state.service);
            let answered = tokio::task::spawn_blocking(move || service.answer(&request)).await;
            drop(room);
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
