//! The web page in a headless Chromium, with real clicks through chromedriver. Skipped with a message where they are missing, unless
//! `AQUEDUCT_REQUIRE_CHROMIUM=1`. `AQUEDUCT_TEST_SCREENSHOTS` names a folder for screenshots.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Processes that end with the test.
struct BrowserTest {
    children: Vec<Child>,
    session: String,
}

impl Drop for BrowserTest {
    fn drop(&mut self) {
        let _ = ureq::delete(&self.session).call();
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a process and returns it with the first line that contains `mark`.
fn start(command: &mut Command, mark: &str) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.contains(mark)).expect("the process starts");
    (child, line)
}

fn post(url: &str, body: &Value) -> Value {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let text = body.to_string();
    let mut answer = agent.post(url).header("Content-Type", "application/json").send(&text).unwrap();
    let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    assert!(answer["value"]["error"].is_null(), "{answer}");
    answer["value"].clone()
}

impl BrowserTest {
    fn run(&self, script: &str) -> Value {
        post(&format!("{}/execute/sync", self.session), &json!({"script": script, "args": []}))
    }

    fn element(&self, selector: &str) -> String {
        let found =
            post(&format!("{}/element", self.session), &json!({"using": "css selector", "value": selector}));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    fn click(&self, selector: &str) {
        let element = self.element(selector);
        post(&format!("{}/element/{element}/click", self.session), &json!({}));
    }

    fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        post(&format!("{}/element/{element}/clear", self.session), &json!({}));
        post(&format!("{}/element/{element}/value", self.session), &json!({"text": text}));
    }

    fn wait(&self, condition: &str) {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.run(&format!("return Boolean({condition})")) != json!(true) {
            assert!(Instant::now() < limit, "{condition}: {}", self.run("return document.body.innerText"));
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn screenshot(&self, name: &str) {
        use base64::Engine;
        let Ok(folder) = std::env::var("AQUEDUCT_TEST_SCREENSHOTS") else { return };
        let mut answer = ureq::get(format!("{}/screenshot", self.session)).call().unwrap();
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        let image =
            base64::engine::general_purpose::STANDARD.decode(answer["value"].as_str().unwrap()).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(name), image).unwrap();
    }
}

#[test]
fn a_search_is_built_started_and_shown_with_clicks() {
    if Command::new("chromedriver").arg("--version").output().is_err() {
        assert!(std::env::var_os("AQUEDUCT_REQUIRE_CHROMIUM").is_none(), "chromedriver is missing");
        println!("skipped: chromedriver is missing");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let genome = folder.path().join("genome.fa").display().to_string();
    let motif = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_motif"));
        command.env("AQUEDUCT_MPI", "none");
        command
    };
    let words =
        ["generate", &genome, "--size", "2MiB", "--sequences", "4", "--plant", "CCATATATGGACGTACGTAC"];
    assert!(motif().args(words).status().unwrap().success());
    let (server, line) =
        start(motif().args(["serve", &genome, "-n", "2", "--listen", "127.0.0.1:0"]), "http://");
    let to = format!("http://{}", line.rsplit("http://").next().unwrap());
    let (proxy, line) = start(motif().args(["proxy", "--to", &to, "--listen", "127.0.0.1:0"]), "http://");
    let page = format!("http://{}/", line.rsplit("http://").next().unwrap());
    let (driver, line) = start(Command::new("chromedriver").arg("--port=0"), "started successfully on port");
    let port = line.rsplit("port ").next().unwrap().trim_end_matches('.').to_owned();
    let options =
        json!({"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,1400"]});
    let wanted =
        json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
    let driver_url = format!("http://127.0.0.1:{port}/session");
    let session = post(&driver_url, &wanted)["sessionId"].as_str().unwrap().to_owned();
    let test =
        BrowserTest { children: vec![driver, proxy, server], session: format!("{driver_url}/{session}") };
    post(&format!("{}/url", test.session), &json!({"url": page}));

    test.write("#query", "CC(A|T){6");
    test.wait("document.getElementById('syntax').textContent.includes('^')");
    assert_eq!(test.run("return document.getElementById('start').disabled"), json!(true));
    test.screenshot("error.png");
    test.write("#query", "ACGTACGTAC");
    test.click("button[data-wrap='/hamming(1)']");
    test.wait("document.getElementById('syntax').className === 'good'");
    assert_eq!(test.run("return document.getElementById('query').value"), json!("(ACGTACGTAC)/hamming(1)"));
    test.click("#start");
    test.wait("document.querySelectorAll('#hits tr').length === 50");
    test.wait("document.querySelectorAll('#map rect').length >= 40");
    assert_eq!(test.run("return document.querySelectorAll('#map svg').length"), json!(4));
    test.screenshot("hits.png");
    test.click("#later");
    test.wait("document.getElementById('range').textContent.startsWith('51 to')");
    let link = test.run("return document.querySelector('#downloads a').href");
    let mut table = ureq::get(link.as_str().unwrap()).call().unwrap();
    assert!(table.body_mut().read_to_string().unwrap().lines().count() > 50);

    // A phone: nothing is wider than the window.
    post(&format!("{}/window/rect", test.session), &json!({"width": 500, "height": 900}));
    test.wait("document.documentElement.scrollWidth <= window.innerWidth");
    test.screenshot("phone.png");
}
