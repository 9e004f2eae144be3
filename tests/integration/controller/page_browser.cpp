// A controller's page in a browser: what hostile ranks write, its views for all kinds of users, and
// a user's way through it.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/integration/controller/browser.h"
#include "tests/integration/controller/page_world.h"
#include "tests/integration/needs.h"
#include "tests/support/golden.h"

namespace meshbus::test::page_world {

TEST_CASE("page: a browser shows what hostile ranks write as text" *
          doctest::test_suite(need::chromedriver)) {
  const Fixture at;
  const auto name = run_evil(at);
  const std::string mesh = "/mesh/" + name;
  for (const std::string& view : {std::string("/"), mesh, mesh + "/why", mesh + "/rank/0"}) {
    INFO(view);
    Browser browser;
    browser.open(at.url + "/#token=" + at.token + "&view=" + view);
    browser.find("main", name);
    // What ranks wrote is on these.
    const bool has_words = view.size() > mesh.size();
    if (has_words) browser.find("main", "<img src=x onerror=");
    const auto shown = browser.run("return document.documentElement.outerHTML").get<std::string>();
    CHECK(shown.find(at.token) == std::string::npos);
    CHECK(browser.run("return location.href").get<std::string>().find(at.token) ==
          std::string::npos);
    CHECK(shown.find("<img") == std::string::npos);
    if (has_words) CHECK(shown.find("&lt;img src=x onerror=") != std::string::npos);
    CHECK(shown.find("PWNED</title>") == std::string::npos);
    CHECK(browser.complaints() == "");
  }
}

TEST_CASE("page: no view keeps out who sees little or has a keyboard only, light, dark or narrow" *
          doctest::test_suite(need::chromedriver)) {
  const Fixture at;
  const auto name = run_evil(at);
  const std::string mesh = "/mesh/" + name;
  std::ifstream file(source_dir() + "/tests/integration/controller/accessible.js");
  const std::string check((std::istreambuf_iterator<char>(file)), {});
  REQUIRE_FALSE(check.empty());
  Browser browser;
  browser.open(at.url + "/#token=" + at.token + "&view=/");
  browser.find("#link", "live");
  // The check does find something.
  browser.run("document.querySelector('h1').style.color = 'rgb(200,200,200)'");
  CHECK(browser.run(check).get<std::string>().find("its contrast is") != std::string::npos);
  for (const auto& [width, is_dark] : {std::pair(1200, false), {1200, true}, {390, false}}) {
    browser.look(width, is_dark);
    for (const std::string& view : {std::string("/hosts"), "/hosts/" + at.host.address(),
                                    "/grid/" + name, mesh, mesh + "/why", mesh + "/logs",
                                    mesh + "/rank/0", std::string("/events"), std::string("/")}) {
      INFO(view, " ", width, is_dark ? " dark" : "");
      browser.run(
          "document.querySelector('main').replaceChildren();"
          "location.hash = " +
          json("#" + view).dump() + ".replace(/^#.hosts.(.+)/, (all, host) => " +
          "'#/hosts/' + encodeURIComponent(host))");
      browser.find("main h1");
      CHECK(browser.run(check) == "");
    }
  }
}

TEST_CASE("page: a user clicks through all of it" * doctest::test_suite(need::chromedriver)) {
  const Fixture at;
  Process job(cli({"run", "--hosts", at.host.address(), "-n", "3", "--name", "job", "--restart",
                   "on-failure:1", "--", "sh", "-c",
                   "echo begun; [ $RANK = 1 ] || exec sleep 100; echo '<b>no</b>' >&2; "
                   "exit 3"}));
  std::string name;
  at.site_when([&](const json& site) {
    for (const auto& mesh : site.at("meshes")) {
      for (const auto& rank : mesh.at("ranks")) {
        if (rank.at("exit_code") == 3) name = mesh.at("mesh");
      }
    }
    return !name.empty();
  });

  Browser browser;
  browser.open(at.url);
  browser.find("h1", "Token");
  browser.type("input[name=token]", at.token + "0");
  browser.click("button", "Open");
  browser.find("#link", "no access");
  browser.type("input[name=token]", at.token);
  browser.click("button", "Open");
  browser.find("#link", "live");

  browser.click("td a", "why?");
  browser.find("strong", "Rank 1 was first");
  browser.find("pre", "<b>no</b>");
  browser.click("main a", "Ranks");
  browser.find(".timeline svg", "rank 1");
  browser.type("input[type=search]", "failed");
  browser.find("p.quiet", "1 ranks");
  browser.click("td.number a", "1");
  browser.find("h1", "Rank 1 of " + name);
  browser.find("td", "exit 3");
  browser.click("main a", "Logs of this rank");
  browser.find(".log .err", "<b>no</b>");
  browser.type("input[type=search]", "BEGUN");
  browser.find(".log mark", "begun");
  browser.click("main a", "Grid");
  browser.find("p.quiet", "3 ranks on 1 hosts");
  browser.run("document.querySelector('canvas').focus()");
  browser.press("\uE014");  // Right
  browser.find(".tip", "rank 0");
  browser.press("\uE007");  // Enter
  browser.find("h1", "Rank 0 of " + name);

  // What has the focus keeps it while data comes in.
  browser.press("o");
  browser.find("h1", "Overview");
  browser.run("document.querySelector('td a').focus()");
  const auto before = browser.run("return document.documentElement.dataset.sequence");
  run_cli({"run", "--hosts", at.host.address(), "-n", "1", "--name", "zz_later", "--", "false"});
  browser.find("td a", "zz_later");
  CHECK(browser.run("return document.documentElement.dataset.sequence") != before);
  CHECK(browser.run("return document.activeElement.matches('td a')") == true);
  browser.press("h");
  browser.find("h1", "Hosts");
  browser.click("td a", at.host.address());
  browser.find("h2", "Links to other hosts");
  browser.press("e");
  browser.find("h1", "Events");
  browser.press("?");
  browser.click("dialog button", "Close");
  CHECK(browser.run("return document.querySelectorAll('b b, td b').length") == 0);
  // Nothing was asked of another server, and the policy stopped nothing.
  CHECK(browser.run("return performance.getEntriesByType('resource').every((one) => "
                    "one.name.startsWith(location.origin))") == true);
  auto complaints = browser.complaints();
  // The wrong token above.
  const auto refused = complaints.find("401");
  CHECK(refused != std::string::npos);
  CHECK(std::count(complaints.begin(), complaints.end(), '\n') == 2);
  INFO(complaints);
}

TEST_CASE("page: a user looks at stacks, signals a rank and stops a mesh" *
          doctest::test_suite(need::chromedriver)) {
  const Fixture at("tcp:127.0.0.1:0", {"--http-write"});
  Process job(cli({"run", "--hosts", at.host.address(), "-n", "2", "--name", "job", "--", "sh",
                   "-c", "trap 'echo \"heard in $RANK\"' USR1; while :; do sleep 0.05; done"}));
  const auto name = at.mesh_of(2);
  std::ifstream file(source_dir() + "/tests/integration/controller/accessible.js");
  const std::string check((std::istreambuf_iterator<char>(file)), {});
  Browser browser;
  browser.open(at.url + "/#token=" + at.token + "&view=/mesh/" + name);
  browser.find("#link", "live");
  browser.click("main a", "Stacks");
  browser.find("main p", "Ranks 0-1, looked at in");
  browser.find("main h2", "Ranks 0");
  CHECK(browser.run(check) == "");
  browser.click("main a", "Ranks");
  browser.click("td.number a", "1");
  browser.click("button", "Signal…");
  browser.find("dialog h2", "Send a signal to rank 1 of " + name);
  CHECK(browser.run(check) == "");
  browser.click("dialog button", "Send");
  browser.find("dialog p", "The signal was sent: ranks 1.");
  job.wait_for_output("heard in 1", in_time);
  browser.click("dialog button", "Close");
  browser.click("main a", "Ranks");
  browser.click("button", "Stop…");
  browser.type("dialog input[name=reason]", "enough of it");
  browser.type("dialog input[name=grace_s]", "0");
  browser.click("dialog button", "Cancel");
  CHECK(job.is_running());
  browser.click("button", "Stop…");
  browser.type("dialog input[name=reason]", "enough of it");
  browser.type("dialog input[name=grace_s]", "0");
  browser.click("dialog button", "Stop");
  browser.find("dialog p", "They were asked to stop: ranks 0-1.");
  job.wait_exit(in_time);
  browser.click("dialog button", "Close");
  browser.click("main a", "Why");
  browser.find("main", "enough of it");
  CHECK(browser.complaints() == "");
}

}  // namespace meshbus::test::page_world
