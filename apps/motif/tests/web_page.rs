//! The web page in a headless Chromium, with real clicks and keys through chromedriver. Skipped with a message where they are missing, unless
//! `AQUEDUCT_REQUIRE_CHROMIUM=1`. `AQUEDUCT_TEST_SCREENSHOTS` names a folder for screenshots.

mod processes;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use processes::{PLANTED, ServiceProcess, output, users};
use serde_json::{Value, json};

/// The codes of keys in the protocol of chromedriver.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const SHIFT: &str = "\u{e008}";

/// A browser that ends with the test.
struct BrowserTest {
    driver: Child,
    session: String,
}

impl Drop for BrowserTest {
    fn drop(&mut self) {
        let _ = ureq::delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
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
    /// A browser with an empty page; none if it is not installed.
    fn start() -> Option<Self> {
        if Command::new("chromedriver").arg("--version").output().is_err() {
            assert!(std::env::var_os("AQUEDUCT_REQUIRE_CHROMIUM").is_none(), "chromedriver is missing");
            println!("skipped: chromedriver is missing (Debian package chromium-driver)");
            return None;
        }
        let mut driver = Command::new("chromedriver");
        let mut driver = driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line =
            lines.find(|line| line.contains("started successfully on port")).expect("chromedriver starts");
        let port = line.rsplit("port ").next().unwrap().trim_end_matches('.').to_owned();
        let options =
            json!({"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,1400"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let url = format!("http://127.0.0.1:{port}/session");
        let session = post(&url, &wanted)["sessionId"].as_str().unwrap().to_owned();
        Some(Self { driver, session: format!("{url}/{session}") })
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        post(&format!("{}/{name}", self.session), body)
    }

    fn open(&self, url: &str) {
        self.command("url", &json!({"url": url}));
    }

    fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector(\"{selector}\").innerText"));
        text.as_str().unwrap_or("").to_owned()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/click"), &json!({}));
    }

    fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/clear"), &json!({}));
        self.command(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys where the focus is. A key after `SHIFT` is pressed with it.
    fn press(&self, keys: &[&str]) {
        let step = |kind: &str, key: &str| json!({"type": kind, "value": key});
        let mut actions: Vec<Value> = keys.iter().map(|key| step("keyDown", key)).collect();
        actions.extend(keys.iter().rev().map(|key| step("keyUp", key)));
        self.command("actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}));
    }

    fn types(&self, text: &str) {
        text.chars().for_each(|letter| self.press(&[&letter.to_string()]));
    }

    /// The label of the element that has the focus.
    fn focus(&self) -> String {
        let script =
            "const e = document.activeElement; return e.getAttribute('aria-label') || e.id || e.innerText";
        self.run(script).as_str().unwrap_or("").to_owned()
    }

    /// Presses Tab until the element of this label has the focus.
    fn tab_to(&self, label: &str, keys: &[&str]) {
        for _ in 0..40 {
            if self.focus() == label {
                return;
            }
            self.press(keys);
        }
        panic!("{label} is not reached with the keyboard; the focus is on {}", self.focus());
    }

    fn wait(&self, condition: &str) {
        let limit = Instant::now() + Duration::from_secs(40);
        while self.run(&format!("return Boolean({condition})")) != json!(true) {
            assert!(Instant::now() < limit, "{condition}: {}", self.run("return document.body.innerText"));
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a search has a state.
    fn wait_state(&self, row: usize, state: &str) {
        self.wait(&format!(
            "document.querySelector('#searches tr:nth-child({row})')?.dataset.state === '{state}'"
        ));
    }

    fn screenshot(&self, name: &str) {
        use base64::Engine;
        let Ok(folder) = std::env::var("AQUEDUCT_TEST_SCREENSHOTS") else { return };
        let mut answer = ureq::get(format!("{}/screenshot", self.session)).call().unwrap();
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        let image =
            base64::engine::general_purpose::STANDARD.decode(answer["value"].as_str().unwrap()).unwrap();
        fs::write(Path::new(&folder).join(name), image).unwrap();
    }

    /// A phone: everything is reachable without scrolling to the side.
    fn shrink_to_phone(&self) {
        let metrics = json!({"width": 375, "height": 740, "deviceScaleFactor": 2, "mobile": true});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics});
        self.command("goog/cdp/execute", &command);
        self.wait("window.innerWidth === 375 && document.documentElement.scrollWidth <= 375");
        let outside = "[...document.querySelectorAll('button, input, select')].filter(e => e.offsetParent && !e.closest('.scroll') \
                       && e.getBoundingClientRect().right > 375).map(e => e.id || e.innerText)";
        assert_eq!(self.run(&format!("return {outside}")), json!([]));
    }
}

/// Sequences of 1000 and 500 residues with one word, the first one at its end.
fn two_sequences(folder: &Path) -> String {
    let path = folder.join("short.fa").display().to_string();
    let (long, short) = ("C".repeat(990) + "GATTACAGAT", "C".repeat(250) + "GATTACAGAT" + &"C".repeat(240));
    fs::write(&path, format!(">long\n{long}\n>short\n{short}\n")).unwrap();
    path
}

#[test]
fn a_search_is_built_started_and_shown_with_clicks() {
    let Some(test) = BrowserTest::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let genome = folder.path().join("genome.fa").display().to_string();
    output(&["generate", &genome, "--size", "2MiB", "--sequences", "4", "--plant", PLANTED]);
    let short = two_sequences(folder.path());
    let server = ServiceProcess::start(&["serve", &genome, &short, "-n", "2"]);
    let proxy = ServiceProcess::start(&["proxy", "--to", &server.url()]);
    test.open(&format!("{}/", proxy.url()));
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
    test.wait("document.querySelectorAll('#map rect.hit').length >= 40");
    assert_eq!(test.run("return document.querySelectorAll('#map svg').length"), json!(4));
    test.screenshot("hits.png");
    test.click("#later");
    test.wait("document.getElementById('range').textContent.startsWith('51 to')");
    let link = test.run("return document.querySelector('#downloads a').href");
    let mut table = ureq::get(link.as_str().unwrap()).call().unwrap();
    assert!(table.body_mut().read_to_string().unwrap().lines().count() > 50);

    // Another database: the map has the scale of its sequences, not of the last hit.
    assert!(
        test.text("#database").contains("short.fa (2 sequences, 1500 residues)"),
        "{}",
        test.text("#database")
    );
    test.click(&format!("#database option[value='{short}']"));
    test.write("#query", "GATTACAGAT");
    test.click("#start");
    test.wait("document.querySelectorAll('#map svg').length === 2");
    let position = |number: usize, name: &str| {
        let value = test.run(&format!(
            "return document.querySelectorAll('#map rect.hit')[{number}].getAttribute('{name}')"
        ));
        value.as_str().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!((position(0, "x"), position(0, "width"), position(1, "x")), (990.0, 10.0, 250.0));
    let lengths = "[...document.querySelectorAll('#map rect.sequence')].map(e => e.getAttribute('width'))";
    assert_eq!(test.run(&format!("return {lengths}")), json!(["1000", "500"]));
    assert!(test.text("#map").contains("long: 1 hits in 1000 residues"), "{}", test.text("#map"));
    test.screenshot("map.png");

    // Show brings an earlier search back, Forget removes one.
    test.click("button[aria-label='show search 1']");
    test.wait("document.getElementById('title').textContent.startsWith('Search 1:')");
    test.wait("document.querySelectorAll('#map svg').length === 4");
    test.click("button[aria-label='forget search 1']");
    test.wait("document.querySelectorAll('#searches tr').length === 1");
    test.wait("document.getElementById('result').hidden");
    test.shrink_to_phone();
    test.screenshot("phone.png");
}

#[test]
fn a_user_searches_and_cancels_with_the_keyboard() {
    let Some(test) = BrowserTest::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (short, users) = (two_sequences(folder.path()), users(folder.path()));
    let genome = processes::genome(folder.path(), "64KiB");
    let server = ServiceProcess::start(&["serve", &short, &genome, "-n", "2"]);
    let proxy = ServiceProcess::start(&["proxy", "--to", &server.url(), "--users", &users]);
    // Without a password there is no page; the list of databases needs it too.
    let page = |user: &str| format!("http://{user}{}/", proxy.address);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    for path in ["", "api/download?id=1"] {
        assert_eq!(agent.get(page("") + path).call().unwrap().status(), 401);
    }
    test.open(&page("first:wrong@"));
    assert_eq!(test.run("return document.querySelectorAll('#query').length"), json!(0));
    test.open(&page("first:secret@"));
    test.wait("document.querySelectorAll('#database option').length === 3");

    // A search with keys only.
    test.tab_to("query", &[TAB]);
    test.run("document.getElementById('query').select()");
    test.types("GATTACAGAT");
    test.wait("document.getElementById('syntax').className === 'good'");
    test.press(&[ENTER]);
    test.wait("document.querySelectorAll('#hits tr').length === 2");
    assert_eq!(test.focus(), "title", "the focus is where the result begins");
    test.screenshot("keyboard.png");

    // An expensive search runs until Cancel is pressed; the list is refreshed meanwhile and keeps the focus.
    test.tab_to("query", &[SHIFT, TAB]);
    test.run("document.getElementById('query').select()");
    test.types("(A.*)/length(1,9000) @ (.*C.*)/gc(99,100) @ (.*G)/gc(99,100) @ (T{99})/edit(40)");
    test.wait("document.getElementById('syntax').className === 'good'");
    test.press(&[ENTER]);
    test.wait_state(1, "running");
    test.wait("!document.querySelector('#searches progress').hidden");
    test.tab_to("cancel search 2", &[TAB]);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(test.focus(), "cancel search 2");
    test.screenshot("running.png");
    test.press(&[ENTER]);
    test.wait_state(1, "cancelled");
    test.tab_to("forget search 2", &[TAB]);
    test.press(&[ENTER]);
    test.wait("document.querySelectorAll('#searches tr').length === 1");
    let others = proxy.client("second:other").call("motif.list", &[]).unwrap();
    assert_eq!(others, json!([]), "searches are private");
}
