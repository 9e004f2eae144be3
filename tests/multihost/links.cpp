// Links between hosts whose network and machines fail: what a cut held arrives, once and in order;
// whatever a death took is told of. Each host runs one meshbus-broker and one meshbus_talker, which
// talk as fast as is taken, both ways.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "tests/lab/lab.h"
#include "tests/support/environment.h"
#include "tests/support/wait.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

using Steady = std::chrono::steady_clock;
using Numbers = std::set<std::uint64_t>;

/// Read before main(), which removes all our variables from the environment.
const std::chrono::seconds partition = [] {
  const char* text = std::getenv("MESHBUS_TEST_PARTITION");
  return std::chrono::seconds(text == nullptr ? 5 : std::atoi(text));
}();

/// What a talker says of itself at the end.
struct Report {
  explicit Report(const std::string& out) {
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string name, range;
      words >> name;
      auto& numbers = all[name];
      while (words >> range) {
        const auto dash = range.find('-');
        const auto first = std::stoull(range.substr(0, dash));
        const auto last = dash == std::string::npos ? first : std::stoull(range.substr(dash + 1));
        if (dash == std::string::npos) {
          numbers.push_back(first);
        } else {
          for (auto i = first; i <= last; ++i) numbers.push_back(i);
        }
      }
    }
  }
  std::uint64_t at(const std::string& name, std::size_t index = 0) const {
    return all.at(name).at(index);
  }
  Numbers set(const std::string& name) const { return {all.at(name).begin(), all.at(name).end()}; }
  std::size_t count(const std::string& name) const { return all.at(name).size(); }

  std::map<std::string, std::vector<std::uint64_t>> all;
};

/// What became of what one talker sent to the other.
struct Outcome {
  Outcome(const Report& from, const Report& to)
      : sent(from.at("sent")),
        got(to.at("got")),
        returned(from.count("returned")),
        unknown(from.count("unknown")) {
    Numbers told = from.set("returned");
    for (const auto number : from.set("unknown")) {
      if (!told.insert(number).second) ++told_twice;
    }
    told_twice += from.count("returned") + from.count("unknown") - told.size() - told_twice;
    Numbers missing = to.set("missing");
    for (auto number = to.at("got", 1) + 1; number <= sent; ++number) missing.insert(number);
    for (const auto number : missing) lost += told.contains(number) ? 0U : 1U;
    for (const auto number : from.set("returned"))
      returned_and_came += missing.contains(number) ? 0U : 1U;
  }
  std::string text() const {
    return std::to_string(sent) + " sent, " + std::to_string(got) + " came, " +
           std::to_string(returned) + " returned, " + std::to_string(unknown) +
           " of unknown fate, " + std::to_string(lost) + " lost in silence";
  }
  std::uint64_t sent, got, returned, unknown, lost = 0, told_twice = 0, returned_and_came = 0;
};

class LinkedPair {
 public:
  /// `by_name`: the hosts know each other by name, and a third one is there.
  explicit LinkedPair(std::vector<std::string> settings = {}, bool by_name = false)
      : settings_(std::move(settings)), by_name_(by_name), lab(by_name ? 3 : 2) {
    for (std::size_t i = 0; i < 2; ++i) start_broker(i);
    for (std::size_t i = 0; i < 2; ++i) start_talker(i);
    run_for(3000);
  }
  void start_broker(std::size_t i) {
    std::vector<std::string> words = {bin("meshbus-broker"), "--bind",    address(i),
                                      "--advertise",         known_as(i), "--insecure"};
    for (const auto& setting : settings_) {
      words.push_back("--set");
      words.push_back(setting);
    }
    brokers[i].reset(new Process(lab.host(i).start(words)));
  }
  void start_talker(std::size_t i) {
    const std::vector<std::string> words = {bin("meshbus_talker"), address(i), name(i),
                                            known_as(1 - i) + "," + name(1 - i)};
    talkers[i].reset(new Process(lab.host(i).start(words, {.stdin_pipe = true})));
  }
  std::string address(std::size_t i) const { return "tcp:" + lab.host(i).address() + ":7700"; }
  std::string known_as(std::size_t i) const {
    return by_name_ ? "tcp:" + lab.host(i).name() + ":7700" : address(i);
  }
  static std::string name(std::size_t i) {
    return i == 0 ? "client-13Se1Maqzryj" : "client-13Se1Maqzryk";
  }
  /// What that talker has heard, as far as it has said so: every 1000.
  std::uint64_t heard(std::size_t i) {
    talkers[i]->is_running();
    const auto& out = talkers[i]->out();
    const auto at = out.rfind("heard ");
    return at == std::string::npos ? 0 : std::stoull(out.substr(at + 6));
  }
  /// Until both have heard so many more; the time that it took.
  std::chrono::milliseconds run_for(std::uint64_t more) {
    const auto start = Steady::now();
    const std::uint64_t begin[2] = {heard(0), heard(1)};
    const bool came = wait_until(
        [&] { return heard(0) >= begin[0] + more && heard(1) >= begin[1] + more; }, in_time);
    INFO(talkers[0]->describe() << talkers[1]->describe() << brokers[0]->describe()
                                << brokers[1]->describe());
    REQUIRE(came);
    return std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now() - start);
  }
  void pause(std::chrono::milliseconds time) {
    wait_until([] { return false; }, time);
  }
  void wait_for_line(const std::string& line, std::chrono::milliseconds limit) {
    for (std::size_t i = 0; i < 2; ++i) {
      const bool came = wait_until(
          [&] {
            return talkers[i]->is_running() &&
                   talkers[i]->out().find("\n" + line + "\n") != std::string::npos;
          },
          limit);
      INFO(talkers[i]->describe());
      REQUIRE(came);
    }
  }
  /// Stops both and reads what they say.
  void finish(std::chrono::milliseconds limit = in_time) {
    for (auto& talker : talkers) talker->write_stdin("stop\n");
    wait_for_line("settled", limit);
    // Only now has each got all that the other one sent.
    for (auto& talker : talkers) talker->write_stdin("report\n");
    wait_for_line("end", limit);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& out = talkers[i]->out();
      reports[i].emplace(out.substr(out.rfind("\nsent ") + 1));
    }
  }
  Outcome outcome(std::size_t from) const { return Outcome(*reports[from], *reports[1 - from]); }
  /// Order held, nothing was told twice, nothing that was returned came, and nothing was lost in
  /// silence.
  void check(const std::string& what) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Outcome outcome = this->outcome(i);
      MESSAGE(what << ": host" << i << " to host" << 1 - i << ": " << outcome.text()
                   << "; control: " << reports[i]->at("control") << " sent, "
                   << reports[1 - i]->at("control", 1) << " came; longest silence "
                   << reports[1 - i]->at("silence_ms") << " ms");
      CHECK(reports[i]->at("disorders") == 0);
      CHECK(outcome.lost == 0);
      CHECK(outcome.told_twice == 0);
      CHECK(outcome.returned_and_came == 0);
      CHECK(reports[i]->at("sums") ==
            reports[i]->at("sums", 1) + reports[i]->at("sums", 2) + reports[i]->at("sums", 3));
    }
  }
  /// Besides: everything came.
  void check_all_came(const std::string& what) {
    check(what);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(outcome(i).got == outcome(i).sent);
      CHECK(outcome(i).unknown == 0);
      CHECK(outcome(i).returned == 0);
      CHECK(reports[i]->at("control") == reports[1 - i]->at("control", 1));
      CHECK(reports[i]->at("control", 2) == 0);
    }
  }

 private:
  std::vector<std::string> settings_;
  bool by_name_;

 public:
  Lab lab;
  std::unique_ptr<Process> brokers[2];
  std::unique_ptr<Process> talkers[2];
  std::optional<Report> reports[2];
};

/// Ends the connections between the brokers by reset, whichever they are. How many there were.
std::size_t reset_links(LinkedPair& site, std::size_t host) {
  const auto killed = site.lab.host(host).run(
      {"ss", "-K", "-n", "-H", "dst", site.lab.host(1 - host).address()}, in_time);
  return static_cast<std::size_t>(std::count(killed.out.begin(), killed.out.end(), '\n'));
}

}  // namespace

TEST_CASE("links: 100 resets under load between two hosts") {
  LinkedPair site;
  std::mt19937 random(6);
  std::size_t resets = 0;
  const auto end = Steady::now() + in_time;
  while (resets < 100 && Steady::now() < end) {
    site.pause(std::chrono::milliseconds(random() % 30));
    resets += reset_links(site, random() % 2);
  }
  // It takes a kernel with CONFIG_INET_DIAG_DESTROY.
  CHECK(resets >= 100);
  site.run_for(2000);
  site.finish();
  site.check_all_came(std::to_string(resets) + " connections reset");
  CHECK(site.reports[0]->at("silence_ms") < 8000);
}

TEST_CASE("links: a partition of five seconds, or as long as MESHBUS_TEST_PARTITION says") {
  LinkedPair site;
  site.lab.cut(0, 1);
  site.pause(partition);
  site.lab.heal(0, 1);
  const auto back = site.run_for(1000);
  site.finish();
  const std::string what = "partition of " + std::to_string(partition.count()) + " s, " +
                           std::to_string(back.count()) +
                           " ms from the heal to 1000 more messages each way";
  // delivery.limit
  if (partition < 25s) {
    site.check_all_came(what);
  } else {
    site.check(what);
  }
}

TEST_CASE("links: one packet in ten is lost, one way") {
  LinkedPair site;
  site.lab.lose(0, 1, 0.1);
  site.pause(5s);
  site.lab.lose(0, 1, 0);
  site.run_for(1000);
  site.finish();
  site.check_all_came("10 % lost one way for 5 s");
}

TEST_CASE("links: a broker is killed and started again") {
  LinkedPair site;
  site.brokers[1]->send_signal(SIGKILL);
  CHECK(site.brokers[1]->wait_exit(in_time) == ExitStatus::killed_by(SIGKILL));
  site.start_broker(1);
  const auto back = site.run_for(2000);
  site.finish();
  site.check("broker killed and restarted, " + std::to_string(back.count()) +
             " ms to 2000 more messages each way");
}

TEST_CASE("links: a host is frozen for three seconds") {
  LinkedPair site;
  site.lab.freeze(1);
  site.pause(3s);
  site.lab.thaw(1);
  const auto back = site.run_for(1000);
  site.finish();
  site.check_all_came("frozen for 3 s, " + std::to_string(back.count()) +
                      " ms from the thaw to 1000 more messages each way");
}

TEST_CASE("links: a host loses its power, and another one comes under its address") {
  LinkedPair site(std::vector<std::string>{"delivery.limit=20s"});
  site.lab.power_off(1);
  site.pause(2s);
  site.lab.boot(1);
  site.start_broker(1);
  site.talkers[1].reset();
  site.start_talker(1);
  const auto start = Steady::now();
  const bool came = wait_until([&] { return site.heard(1) >= 1000; }, in_time);
  CHECK(came);
  const auto back = std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now() - start);
  site.finish();
  // The new host's peer knows nothing of what was sent to the old one: of that, everything was
  // told.
  const auto& from = *site.reports[0];
  const auto& to = *site.reports[1];
  const auto first = *to.set("missing").rbegin() + 1;
  Numbers told = from.set("returned");
  told.merge(from.set("unknown"));
  std::uint64_t silent = 0;
  const auto taken_before = from.at("sums", 1) - to.at("got");
  for (std::uint64_t number = taken_before + 1; number < first; ++number)
    silent += told.contains(number) ? 0U : 1U;
  MESSAGE("power lost, another host "
          << back.count() << " ms later: " << from.at("sent") << " sent, " << taken_before
          << " taken by the old one, " << from.count("returned") << " returned, "
          << from.count("unknown") << " of unknown fate, " << to.at("got")
          << " came to the new one from number " << first);
  CHECK(silent == 0);
  CHECK(to.at("disorders") == 0);
  CHECK(from.count("unknown") > 0);
}

TEST_CASE("links: the names of hosts cannot be looked up any more") {
  LinkedPair site(std::vector<std::string>(), /*by_name=*/true);
  const std::string server = site.lab.host(2).address();
  site.lab.power_off(2);
  for (std::size_t i = 0; i < 2; ++i) {
    // The name server that is asked from now on is not there.
    const auto done = site.lab.host(i).run(
        {"sh", "-c",
         "echo 127.0.0.1 localhost >$TMPDIR/hosts && echo nameserver " + server +
             " >$TMPDIR/resolv.conf && mount --bind $TMPDIR/hosts /etc/hosts && "
             "mount --bind $TMPDIR/resolv.conf /etc/resolv.conf"},
        in_time);
    INFO(done.err);
    REQUIRE(done.status == ExitStatus::exited(0));
  }
  std::chrono::milliseconds longest{0};
  for (int i = 0; i < 5; ++i) {
    CHECK(reset_links(site, static_cast<std::size_t>(i % 2)) > 0);
    longest = std::max(longest, site.run_for(1000));
  }
  site.finish();
  site.check_all_came("no name server, 5 resets, at most " + std::to_string(longest.count()) +
                      " ms to 1000 more messages each way");
}
