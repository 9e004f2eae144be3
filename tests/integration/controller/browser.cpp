#include "tests/integration/controller/browser.h"

#include <chrono>
#include <stdexcept>

#include "tests/support/http_client.h"

namespace meshbus::test {
namespace {

using nlohmann::json;

constexpr const char* kElement = "element-6066-11e4-a52e-4f735466cecf";
constexpr const char* kPort = "started successfully on port ";

}  // namespace

Browser::Browser()
    : driver_({"env", "XDG_CONFIG_HOME=" + profile_.path().string(),
               "XDG_CACHE_HOME=" + profile_.path().string(),
               "XDG_RUNTIME_DIR=" + profile_.path().string(), "chromedriver", "--port=0"}) {
  driver_.wait_for_output(kPort, in_time);
  const auto& text = driver_.out();
  url_ = "http://127.0.0.1:" + std::to_string(std::stoi(text.substr(text.find(kPort) + 29)));
  const json options{{"args",
                      {"--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900",
                       "--user-data-dir=" + profile_.path().string()}}};
  const json wanted{{"browserName", "chrome"},
                    {"goog:chromeOptions", options},
                    {"goog:loggingPrefs", {{"browser", "ALL"}}}};
  session_ = ask("POST", "/session", {{"capabilities", {{"alwaysMatch", wanted}}}}).at("sessionId");
  session_ = "/session/" + session_;
}

Browser::~Browser() {
  try {
    ask("DELETE", session_);
  } catch (const std::exception&) {
    // The process ends anyway.
  }
}

json Browser::ask(const std::string& method, const std::string& path, const json& body) {
  HttpClient client(url_);
  const auto text = method == "POST" ? body.dump() : std::string();
  client.send(method + " " + path +
              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json"
              "\r\nContent-Length: " +
              std::to_string(text.size()) + "\r\n\r\n" + text);
  const auto answer = client.read_all(std::chrono::seconds(120));
  if (answer.status != 200)
    throw std::runtime_error(method + " " + path + " " + text + ": " + answer.body);
  return json::parse(answer.body).at("value");
}

void Browser::open(const std::string& url) {
  ask("POST", session_ + "/url", {{"url", url}});
}

void Browser::look(int width, bool is_dark) {
  ask("POST", session_ + "/goog/cdp/execute",
      {{"cmd", "Emulation.setDeviceMetricsOverride"},
       {"params",
        {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", false}}}});
  const json feature{{"name", "prefers-color-scheme"}, {"value", is_dark ? "dark" : "light"}};
  ask("POST", session_ + "/goog/cdp/execute",
      {{"cmd", "Emulation.setEmulatedMedia"}, {"params", {{"features", json::array({feature})}}}});
}

json Browser::run(const std::string& script) {
  return ask("POST", session_ + "/execute/sync", {{"script", script}, {"args", json::array()}});
}

std::string Browser::find(const std::string& css, const std::string& text) {
  std::string found;
  const auto script = "return [...document.querySelectorAll(" + json(css).dump() +
                      ")].find((one) => one.textContent.includes(" + json(text).dump() +
                      ")) ?? null";
  const bool is_there = wait_until(
      [&] {
        const auto one = run(script);
        if (!one.is_null()) found = one.at(kElement);
        return !found.empty();
      },
      in_time);
  if (!is_there)
    throw std::runtime_error("no " + css + " with '" + text + "' in " +
                             run("return document.body.innerText").get<std::string>());
  return found;
}

void Browser::click(const std::string& css, const std::string& text) {
  // The page may have replaced the node that was found.
  const bool is_clicked = wait_until(
      [&] {
        try {
          ask("POST", session_ + "/element/" + find(css, text) + "/click");
          return true;
        } catch (const std::runtime_error& error) {
          if (std::string(error.what()).find("stale element") == std::string::npos) throw;
          return false;
        }
      },
      in_time);
  if (!is_clicked) throw std::runtime_error(css + " is never there for long enough to be clicked");
}

void Browser::type(const std::string& css, const std::string& keys) {
  ask("POST", session_ + "/element/" + find(css) + "/value", {{"text", keys}});
}

void Browser::press(const std::string& keys) {
  const auto active = ask("GET", session_ + "/element/active").at(kElement).get<std::string>();
  ask("POST", session_ + "/element/" + active + "/value", {{"text", keys}});
}

std::string Browser::complaints() {
  std::string found;
  for (const auto& line : ask("POST", session_ + "/se/log", {{"type", "browser"}})) {
    if (line.at("level") == "SEVERE") found += line.at("message").get<std::string>() + "\n";
  }
  return found;
}

}  // namespace meshbus::test
