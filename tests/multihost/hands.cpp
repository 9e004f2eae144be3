// `meshbus exec`, `cp` and `forward` to ranks on other hosts, with keys (spec 16.5).
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <nlohmann/json.hpp>

#include "tests/multihost/site.h"
#include "tests/support/shell_on_terminal.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Two hosts and a desk, each with keys, and the mesh "work": rank 0 on the first, rank 1 on the
/// second host.
class KeyedSite {
 public:
  explicit KeyedSite(const std::string& shell) : lab_(3) {
    for (const std::size_t i : {0U, 1U}) make_key("host", lab_.host(i).address());
    make_key("operator", "alice");
    make_key("observer", "eve");
    for (const std::size_t i : {0U, 1U})
      hosts_.emplace_back(new Process(lab_.host(i).start(
          {bin("meshbus"), "host", "--bind", address(i), "--advertise", address(i)}, keys())));
    for (auto& host : hosts_) host->wait_for_output("\n", in_time);
    Words words = meshbus("run", {"-n", "2", "--name", "work", "--no-prefix", "--", "sh", "-c"});
    words.push_back("echo up; " + shell);
    job_.reset(new Process(desk().start(words, as("alice"))));
    const auto count = [&] { return std::count(job_->out().begin(), job_->out().end(), '\n'); };
    wait_until([&] { return count() == 2 || !job_->is_running(); }, in_time);
    INFO(job_->describe());
    REQUIRE(count() == 2);
  }

  Words meshbus(const std::string& verb, const Words& words) const {
    Words all = {bin("meshbus"), verb, "--hosts", address(0) + "," + address(1)};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  ProcessOptions as(const std::string& name) const {
    auto options = keys();
    options.environment.emplace_back("MESHBUS_KEYS_OWN", dir_ / (name + ".key"));
    return options;
  }
  Finished run(const std::string& verb, const Words& words,
               const std::string& name = "alice") const {
    return desk().run(meshbus(verb, words), in_time, as(name));
  }
  Lab::Host desk() const { return lab_.host(2); }
  const Lab& lab() const { return lab_; }
  std::size_t procs_on(std::size_t index, const std::string& mark) const {
    const auto found = lab_.host(index).processes();
    return static_cast<std::size_t>(
        std::count_if(found.begin(), found.end(),
                      [&](const std::string& one) { return one.find(mark) != std::string::npos; }));
  }

 private:
  ProcessOptions keys() const {
    return {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir_.path().string()}}};
  }
  std::string address(std::size_t index) const {
    return "tcp:" + lab_.host(index).address() + ":7700";
  }
  void make_key(const std::string& role, const std::string& name) const {
    const auto made =
        desk().run({bin("meshbus"), "keygen", "--dir", dir_.path().string(), role, name}, in_time);
    INFO(made.err);
    REQUIRE(made.status == ExitStatus::exited(0));
  }

  TempDir dir_;
  Lab lab_;
  std::vector<std::unique_ptr<Process>> hosts_;
  std::unique_ptr<Process> job_;
};

/// What a host says to a ping while a stream flows: round trips in milliseconds.
struct Pinged {
  std::vector<double> ms;

  double median() {
    std::sort(ms.begin(), ms.end());
    return ms.empty() ? 0 : ms[ms.size() / 2];
  }
};

Pinged ping_while(const KeyedSite& site, Process& stream) {
  Pinged pinged;
  while (stream.is_running()) {
    const auto one = site.run("ping", {"--json"});
    INFO(one.out << one.err);
    CHECK(one.status == ExitStatus::exited(0));
    const auto answers = nlohmann::json::parse(one.out);
    if (!stream.is_running()) break;
    for (const auto& answer : answers) pinged.ms.push_back(answer.at("ms"));
  }
  return pinged;
}

}  // namespace

TEST_CASE("multihost: exec with keys runs where the ranks are, and only for operators") {
  KeyedSite site("exec sleep 301");
  const auto names = site.run("exec", {"work", "--", "hostname"});
  INFO(names.err);
  CHECK(names.status == ExitStatus::exited(0));
  CHECK(names.out.find("work[0] host0\n") != std::string::npos);
  CHECK(names.out.find("work[1] host1\n") != std::string::npos);
  const auto refused = site.run("exec", {"work:1", "--", "hostname"}, "eve");
  CHECK(refused.status == ExitStatus::exited(125));
  CHECK(refused.err.find("needs role operator, the sender has role observer") != std::string::npos);

  // A kill of the client leaves nothing on the host, nor does its power.
  for (const bool is_killed : {true, false}) {
    Process client = site.desk().start(
        site.meshbus("exec", {"work:1", "--", "sh", "-c",
                              "trap '' HUP; (setsid sleep 302 &); echo begun; sleep 303"}),
        site.as("alice"));
    client.wait_for_output("begun", in_time);
    REQUIRE(wait_until([&] { return site.procs_on(1, "sleep 30") >= 3; }, in_time));
    client.send_signal(is_killed ? SIGKILL : SIGTERM);
    client.wait_exit(in_time);
    CHECK(wait_until([&] { return site.procs_on(1, "sleep 30") == 1; }, in_time));
  }
}

TEST_CASE("multihost: exec with keys has a terminal: size, resize, Ctrl-C, a paste of 1 MB") {
  const KeyedSite site("exec sleep 301");
  const auto on_desk = [&](const Words& words, const ProcessOptions& terminal) {
    auto options = site.as("alice");
    options.environment.insert(options.environment.end(), terminal.environment.begin(),
                               terminal.environment.end());
    options.stdin_pipe = true;
    return site.desk().start(words, options);
  };
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i) text += std::to_string(i) + " pasted\n";
  const std::string file = site.lab().room() + "/pasted";
  ShellOnTerminal shell(
      site.meshbus("exec",
                   {"work:1", "--", "sh", "-c",
                    "trap 'echo got-int' INT; trap 'echo now-`stty size | tr \" \" x`=' WINCH; "
                    "echo begin-`stty size | tr ' ' x`-`hostname`; "
                    "until [ \"$line\" = end ]; do read line && echo line-$line; done; "
                    "stty -echo; echo paste; cat > " +
                        file + "; wc -c < " + file + "; echo all"}),
      on_desk);
  shell.wait_for("begin-24x80-host1");
  shell.type("\x03");
  shell.wait_for("got-int");
  CHECK(site.desk().run({"stty", "-F", shell.tty(), "rows", "33", "cols", "99"}, in_time).status ==
        ExitStatus::exited(0));
  shell.type("\r");
  shell.wait_for("now-33x99=");
  shell.type("end\r");
  shell.wait_for("paste\r\n");
  shell.type(text);
  shell.type("\x04");
  shell.wait_for(std::to_string(text.size()) + "\r\nall");
  shell.wait_for("restored");
  std::ifstream in(site.lab().host(1).file(file));
  CHECK(std::string((std::istreambuf_iterator<char>(in)), {}) == text);

  // The client is killed while its command has the terminal.
  ShellOnTerminal killed(
      site.meshbus("exec", {"work:1", "--", "sh", "-c",
                            "trap '' HUP TERM; (setsid sleep 302 &); echo begun; sleep 303"}),
      on_desk);
  killed.wait_for("begun");
  REQUIRE(wait_until([&] { return site.procs_on(1, "sleep 30") >= 3; }, in_time));
  CHECK(site.desk().run({"pkill", "-KILL", "-x", "meshbus"}, in_time).status ==
        ExitStatus::exited(0));
  CHECK(wait_until([&] { return site.procs_on(1, "sleep 302") == 0; }, in_time));
  CHECK(wait_until([&] { return site.procs_on(1, "sleep 303") == 0; }, in_time));
  CHECK(wait_until([&] { return site.procs_on(1, "meshbus-hands") == 0; }, in_time));
}

TEST_CASE("multihost: megabytes beside a rank, by exec and by forward, do not delay control") {
  // MESHBUS_TEST_STREAM_MB: megabytes through each; tests/soak/streams says 1000.
  const char* const wanted = std::getenv("MESHBUS_TEST_STREAM_MB");
  const std::string megabytes = wanted == nullptr ? "150" : wanted;
  const KeyedSite site(
      "exec /usr/bin/python3 -c \"import socket\n"
      "s=socket.create_server(('127.0.0.1',8181))\n"
      "while True:\n"
      " c,_=s.accept()\n"
      " for i in range(" +
      megabytes +
      "): c.sendall(bytes(1000000))\n"
      " c.close()\"");
  const std::string bytes = megabytes + "000000";
  const auto check = [&](const std::string& what, Process& stream) {
    const auto begin = std::chrono::steady_clock::now();
    auto pinged = ping_while(site, stream);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    INFO(stream.describe());
    CHECK(stream.wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(stream.out() == bytes + "\n");
    REQUIRE(pinged.ms.size() > 5);
    CHECK(pinged.median() < 1000);
    MESSAGE(what << " took " << took.count() << " s; " << pinged.ms.size()
                 << " pings meanwhile: median " << pinged.median() << " ms, slowest "
                 << pinged.ms.back() << " ms");
  };
  Process exec = site.desk().start({"sh", "-c", "\"$@\" | wc -c", "sh", bin("meshbus"), "exec",
                                    "--hosts", "tcp:" + site.lab().host(1).address() + ":7700",
                                    "work:1", "--", "head", "-c", bytes, "/dev/zero"},
                                   site.as("alice"));
  check("exec", exec);
  Process forward =
      site.desk().start(site.meshbus("forward", {"8080:work:1:8181"}), site.as("alice"));
  forward.wait_for_output("127.0.0.1:8080 -> work[1]:8181\n", in_time);
  Process reader = site.desk().start({"/usr/bin/python3", "-c",
                                      "import socket\n"
                                      "s=socket.create_connection(('127.0.0.1',8080))\n"
                                      "n=0\n"
                                      "while d:=s.recv(1<<20): n+=len(d)\n"
                                      "print(n)"});
  check("forward", reader);
  forward.send_signal(SIGKILL);
  forward.wait_exit(in_time);
  CHECK(wait_until([&] { return site.procs_on(1, "meshbus-hands") == 0; }, in_time));
}

TEST_CASE("multihost: cp and forward reach a rank that no port of its host leads to") {
  KeyedSite site(
      "cd $TMPDIR; echo rank $RANK > served; "
      "exec /usr/bin/python3 -m http.server --bind 127.0.0.1 8181 2>/dev/null");
  const TempDir here;
  const auto copied = site.run("cp", {"work:served", here.path().string()});
  INFO(copied.err);
  CHECK(copied.status == ExitStatus::exited(0));
  for (const std::string rank : {"0", "1"})
    CHECK(std::filesystem::file_size(here.path() / rank / "served") == 7);
  Process forward =
      site.desk().start(site.meshbus("forward", {"8080:work:1:8181"}), site.as("alice"));
  forward.wait_for_output("127.0.0.1:8080 -> work[1]:8181\n", in_time);
  Finished got;
  REQUIRE(wait_until(
      [&] {
        got = site.desk().run(
            {"/usr/bin/python3", "-c",
             "import urllib.request as r\n"
             "print(r.urlopen('http://127.0.0.1:8080/served').read().decode(), end='')"},
            in_time);
        return got.status == ExitStatus::exited(0);
      },
      in_time));
  CHECK(got.out == "rank 1\n");
  forward.send_signal(SIGKILL);
  forward.wait_exit(in_time);
  CHECK(wait_until([&] { return site.procs_on(1, "meshbus-hands") == 0; }, in_time));
}
