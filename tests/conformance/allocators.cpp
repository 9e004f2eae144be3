// Spec 6.1, where hosts come from: allocators, their events, and what ends the hosts that they
// made.
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

using Kind = AllocationEvent::Kind;

/// The events of an allocation.
class Events {
 public:
  AllocationSpec spec(std::string_view hosts) {
    return {.extent = extent(hosts), .on_event = [this](const AllocationEvent& event) {
              const std::lock_guard lock(mutex_);
              events_.push_back(event);
            }};
  }
  /// The events of one host.
  std::vector<AllocationEvent> of(std::uint64_t rank) const {
    const std::lock_guard lock(mutex_);
    std::vector<AllocationEvent> found;
    for (const auto& event : events_) {
      if (event.rank == rank) found.push_back(event);
    }
    return found;
  }
  std::vector<Kind> kinds(std::uint64_t rank) const {
    std::vector<Kind> found;
    for (const auto& event : of(rank)) found.push_back(event.kind);
    return found;
  }
  bool has(std::uint64_t rank, Kind kind) const {
    const auto all = kinds(rank);
    return std::find(all.begin(), all.end(), kind) != all.end();
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const auto& event : events_) all += event.describe() + "\n";
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<AllocationEvent> events_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

HostAddr address_of(const StandingHost& host) {
  return must(HostAddr::parse(host.address()));
}

/// A program that is `meshbus` for all but one of those that execute it; that one ends with these
/// words.
std::string broken_once(const TempDir& dir, const std::string& otherwise) {
  const auto path = dir / "meshbus";
  std::ofstream(path) << "#!/bin/sh\nif mkdir " << (dir / "first") << " 2>/dev/null; then "
                      << otherwise << "; fi\nexec " << bin("meshbus") << " \"$@\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

/// Hosts that stand, as an allocation of somebody else's.
class Lent final : public Allocation {
 public:
  Lent(
      const Extent& extent, std::vector<HostAddr> hosts, std::function<void()> end = [] {})
      : Allocation(extent, std::move(hosts)), end_(std::move(end)) {}
  ~Lent() override { end_(); }
  Result<void> stop(std::chrono::milliseconds) override {
    end_();
    for (std::uint64_t rank = 0; rank < hosts().size(); ++rank) note_end(rank, "given back");
    return {};
  }
  void lose(std::uint64_t rank, const std::string& how) { note_end(rank, how); }

 private:
  std::function<void()> end_;
};

}  // namespace

TEST_CASE(
    "spec 6.1: an allocator makes hosts, says so as it happens, and a host has the rank that it "
    "has in the allocation") {
  Events events;  // hears of them as long as the context is there
  auto context = must(Context::create());
  auto made = must(process_allocator(of_this_build())->allocate(context, events.spec("host=2")));
  const auto addresses = made->hosts();
  REQUIRE(addresses.size() == 2);
  CHECK(made->extent() == extent("host=2"));
  CHECK(made->ends_with_launcher());
  CHECK_FALSE(made->wait_end(0, 0ms).has_value());
  REQUIRE(wait_until([&] { return events.has(0, Kind::running) && events.has(1, Kind::running); },
                     in_time));
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    CHECK(events.kinds(rank) == std::vector{Kind::created, Kind::running});
    CHECK(events.of(rank)[1].host == addresses[rank]);
    CHECK(events.of(rank)[1].describe() ==
          "host " + std::to_string(rank) + " (" + addresses[rank].to_string() + ") runs");
  }
  auto hosts = must(HostMesh::allocate(context, "pair", std::move(made)));
  CHECK(hosts.hosts() == addresses);
  CHECK(hosts.ref().name().base() == "pair");
  auto mesh = must(hosts.spawn("ranks", extent("gpu=1"), self({"serve"})));
  CHECK(texts(must(context.call(mesh.ref(), Port::environ_of, "NODE_RANK", in_time))) ==
        Words{"0", "1"});
  for (std::uint64_t rank = 0; rank < 2; ++rank)
    CHECK(must(mesh.ref().proc_at(rank)).host() == addresses[rank]);
  CHECK(must(hosts.shutdown(in_time)).hosts == 2);
  REQUIRE(wait_until([&] { return events.has(0, Kind::stopped) && events.has(1, Kind::stopped); },
                     in_time));
  INFO(events.text());
  for (std::uint64_t rank = 0; rank < 2; ++rank)
    CHECK(events.kinds(rank) == std::vector{Kind::created, Kind::running, Kind::stopped});
}

TEST_CASE(
    "spec 6.1: a host of an allocation that is killed is an event with the reason, and its ranks "
    "are lost at once") {
  Events events;  // hears of them as long as the context is there
  auto context = must(Context::create());
  auto hosts = must(HostMesh::allocate(
      context, "pair",
      must(process_allocator(of_this_build())->allocate(context, events.spec("host=2")))));
  Heard heard;
  auto mesh =
      must(hosts.spawn("ranks", extent("gpu=1"), shell("exec " + own_sleep()), heard.handlers()));
  const auto victim = find_process(static_cast<pid_t>(must(hosts.states())[1].pid));
  REQUIRE(victim.has_value());
  const auto took = std::chrono::steady_clock::now();
  REQUIRE(::kill(victim->parent, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return events.of(1).size() == 3; }, in_time));
  const auto last = events.of(1).back();
  INFO(last.describe());
  CHECK(last.kind == Kind::failed);
  CHECK(last.host == hosts.hosts()[1]);
  CHECK(has(last.reason,
            "its process (pid " + std::to_string(victim->parent) + ") ended: killed by SIGKILL"));
  CHECK(events.of(0).size() == 2);
  REQUIRE(wait_until([&] { return heard.failures().size() == 1; }, in_time));
  CHECK(heard.failures()[0].rank == 1);
  MESSAGE("the loss of a host was an event after "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::steady_clock::now() - took)
                 .count()
          << " ms");
  must(mesh.stop());
  CHECK(must(hosts.shutdown(in_time)).hosts == 2);
}

TEST_CASE(
    "spec 6.1: an allocation that fails half way ends what it had started, and names the host that "
    "failed and why") {
  const TempDir dir;
  Events events;
  auto context = must(Context::create());
  auto options = of_this_build();
  SUBCASE("a host that cannot start") {
    options.program = broken_once(dir, "echo dying words >&2; exit 7");
  }
  SUBCASE("a host that is never ready") {
    options.program = broken_once(dir, "exec sleep 100");
    options.ready_limit = 3s;
  }
  const bool is_late = options.ready_limit == 3s;
  const auto made = process_allocator(options)->allocate(context, events.spec("host=3"));
  REQUIRE_FALSE(made.has_value());
  INFO(made.error().to_string());
  // All of it is gone already.
  CHECK(children_of(::getpid()).empty());
  CHECK(wait_until([&] { return host_directories().empty(); }, in_time));
  CHECK(made.error().code() == (is_late ? ErrorCode::timeout : ErrorCode::configuration_error));
  CHECK(has(made.error().detail(),
            is_late ? "not ready within 3s" : "exit 7; its last words: dying words"));
  const auto is_over = [&](std::uint64_t rank) {
    return events.has(rank, Kind::failed) || events.has(rank, Kind::stopped);
  };
  REQUIRE(wait_until([&] { return is_over(0) && is_over(1) && is_over(2); }, in_time));
  INFO(events.text());
  int failed = 0;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const auto last = events.of(rank).back();
    if (last.kind == Kind::stopped) {
      CHECK(has(last.reason, " failed"));
      continue;
    }
    ++failed;
    CHECK(has(made.error().detail(), "host " + std::to_string(rank) + " ("));
    CHECK(has(made.error().detail(), last.reason));
  }
  CHECK((is_late ? failed >= 1 : failed == 1));
}

TEST_CASE(
    "spec 6.1: hosts that a command reaches are allocated like any, and one that is not who it "
    "said is refused") {
  auto context = must(Context::create());
  const auto machine = [](const std::string& name) {
    return RemoteHost{
        name,
        {"env", "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 2", bin("meshbus"), "host", "--remote"}};
  };
  auto options = of_this_build();
  {
    Events events;
    auto made = must(remote_allocator({machine("a"), machine("b"), machine("spare")}, options)
                         ->allocate(context, events.spec("host=2")));
    CHECK_FALSE(made->ends_with_launcher());
    auto hosts = must(HostMesh::allocate(context, "pair", std::move(made)));
    auto mesh = must(hosts.spawn("ranks", extent("gpu=1"), self({"serve"})));
    CHECK(texts(must(context.call(mesh.ref(), Port::environ_of, "NODE_RANK", in_time))) ==
          Words{"0", "1"});
    CHECK(must(hosts.shutdown(in_time)).hosts == 2);
    REQUIRE(wait_until([&] { return events.has(0, Kind::stopped) && events.has(1, Kind::stopped); },
                       in_time));
    INFO(events.text());
    CHECK(events.kinds(0) == std::vector{Kind::created, Kind::running, Kind::stopped});
    CHECK(events.of(1)[1].host == hosts.hosts()[1]);
  }
  {
    Events events;
    const auto made =
        remote_allocator({machine("a"), {"broken", {"sh", "-c", "echo dying words >&2; exit 3"}}},
                         options)
            ->allocate(context, events.spec("host=2"));
    REQUIRE_FALSE(made.has_value());
    CHECK(has(made.error().detail(), "host broken: dying words (exit 3)"));
    REQUIRE(wait_until([&] { return events.has(0, Kind::stopped) && events.has(1, Kind::failed); },
                       in_time));
    CHECK(children_of(::getpid()).empty());
  }
  const RemoteHost liar{"liar",
                        {"sh", "-c",
                         "read a; echo '{\"address\":\"127.0.0.1\"}'; read b; echo "
                         "'{\"host\":\"tcp:127.0.0.9:7\"}'; cat >/dev/null"}};
  const auto refused = remote_allocator({liar}, options)->allocate(context, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::identity_mismatch);
  CHECK(has(refused.error().detail(),
            "host liar: it said that it is at 127.0.0.1, and then calls itself tcp:127.0.0.9:7"));
  CHECK(remote_allocator({machine("a")}, options)
            ->allocate(context, {.extent = extent("host=2"), .on_event = {}})
            .error()
            .code() == ErrorCode::configuration_error);
  CHECK(children_of(::getpid()).empty());
}

TEST_CASE(
    "spec 6.1: hosts from elsewhere: a host whose identity is not the expected one is refused, and "
    "the allocation is let go") {
  StandingHost host;
  const TempDir dir;
  const auto alias = dir / "alias";
  std::filesystem::create_symlink(address_of(host).path(), alias);
  auto context = must(Context::create());
  int ends = 0;
  const auto one = extent("host=1");
  const auto other = HostMesh::allocate(
      context, "lent",
      std::make_unique<Lent>(one, std::vector{must(HostAddr::unix_socket(alias))}, [&] { ++ends; }),
      5s);
  REQUIRE_FALSE(other.has_value());
  INFO(other.error().to_string());
  CHECK(other.error().code() == ErrorCode::identity_mismatch);
  CHECK(has(other.error().detail(), host.address()));
  CHECK(ends == 1);
  const auto nobody = HostMesh::allocate(
      context, "lent",
      std::make_unique<Lent>(one, std::vector{must(HostAddr::parse("unix:/nobody/here"))},
                             [&] { ++ends; }),
      500ms);
  REQUIRE_FALSE(nobody.has_value());
  CHECK(nobody.error().code() == ErrorCode::host_unreachable);
  CHECK(has(nobody.error().detail(), "host 0 (unix:/nobody/here)"));
  CHECK(ends == 2);
  CHECK(HostMesh::allocate(context, "lent",
                           std::make_unique<Lent>(extent("host=2"), std::vector{address_of(host)}))
            .error()
            .code() == ErrorCode::invalid_rank_cardinality);
  CHECK(HostMesh::allocate(context, "lent", nullptr).error().code() ==
        ErrorCode::configuration_error);

  // And a host that has the expected address.
  auto hosts = must(HostMesh::allocate(
      context, "lent",
      std::make_unique<Lent>(one, std::vector{address_of(host)}, [&] { ++ends; })));
  auto mesh = must(hosts.spawn("two", extent("gpu=2"), self({"serve"})));
  CHECK(codes(must(context.call(mesh.ref(), Port::echo, "", in_time))) ==
        std::vector(2, ErrorCode::none));
  // Nobody says that it has ended: at the deadline it is given back.
  CHECK(must(hosts.shutdown(5s)).ok == 2);
  CHECK(ends == 3);
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE(
    "spec 6.1: a host that is ready and loses its broker is waited for, unless it has ended") {
  StandingHost host;
  auto context = must(Context::create());
  const auto one = extent("host=1");
  // The warden would start another broker.
  REQUIRE(::kill(host.roles().warden, SIGSTOP) == 0);
  REQUIRE(::kill(host.roles().broker, SIGKILL) == 0);
  REQUIRE(wait_until(
      [&] {
        const auto broker = find_process(host.roles().broker);
        return !broker || broker->is_dead();
      },
      in_time));
  auto lost = std::make_unique<Lent>(one, std::vector{address_of(host)});
  lost->lose(0, "killed by SIGKILL");
  const auto none = HostMesh::allocate(context, "lent", std::move(lost));
  CHECK_FALSE(none.has_value());
  if (!none) CHECK(has(none.error().detail(), "host 0 has ended (killed by SIGKILL)"));
  auto waiting = std::async(std::launch::async, [&] {
    return HostMesh::allocate(context, "lent",
                              std::make_unique<Lent>(one, std::vector{address_of(host)}), in_time);
  });
  CHECK(waiting.wait_for(300ms) == std::future_status::timeout);
  REQUIRE(::kill(host.roles().warden, SIGCONT) == 0);
  auto hosts = must(waiting.get());
  auto mesh = must(hosts.spawn("ranks", extent("gpu=1"), self({"serve"})));
  CHECK(codes(must(context.call(mesh.ref(), Port::echo, "", in_time))) ==
        std::vector(1, ErrorCode::none));
}

TEST_CASE(
    "spec 6.1: an allocation without ranks succeeds at once, and so does all that is done with "
    "it") {
  auto context = must(Context::create());
  // There is no such program, and nobody needs it.
  auto hosts =
      must(HostMesh::process(context, extent("replica=2,host=0"), {.program = "/no/such/program"}));
  CHECK(hosts.hosts().empty());
  CHECK(must(HostMeshRef::parse(hosts.ref().to_string())) == hosts.ref());
  Heard heard;
  auto mesh = must(hosts.spawn("nobody", extent("gpu=2"), self({"serve"}), heard.handlers()));
  CHECK(mesh.ref().region().extent() == extent("replica=2,host=0,gpu=2"));
  CHECK(mesh.size() == 0);
  CHECK(must(mesh.wait(in_time)).exit_code() == 0);
  CHECK(must(mesh.status()).empty());
  CHECK(must(context.call(mesh.ref(), Port::echo, "anyone?", 0ms)).empty());
  CHECK(context.cast(mesh.ref(), Port::echo, "anyone?").has_value());
  CHECK(must(must(mesh.spawn_actors("adder", "adder", "0")).call("add", "1", 0ms)).empty());
  CHECK(must(mesh.stop()).ranks.empty());
  CHECK(heard.ends() == 1);
  CHECK(must(must(hosts.spawn_n("none", 0, shell("true"))).wait(in_time)).ranks.empty());
  CHECK(hosts.spawn_n("some", 1, shell("true")).error().code() == ErrorCode::configuration_error);
  CHECK(must(hosts.states()).empty());
  CHECK(must(hosts.meshes()).meshes.empty());
  CHECK(must(hosts.statuses(mesh.ref())).num_ranks() == 0);
  CHECK(must(hosts.drain()).attempted == 0);
  CHECK(must(hosts.shutdown(in_time)).hosts == 0);
  CHECK(must(HostMesh::take(context, hosts.ref())).hosts().empty());
  auto straight = must(ProcMesh::allocate(
      context, "none", must(remote_allocator({})->allocate(context, {extent("host=0"), {}})),
      extent("gpu=1"), self({"serve"})));
  CHECK(must(straight.stop()).ranks.empty());
  CHECK(local_allocator()->allocate(context, {extent("host=0"), {}}).error().code() ==
        ErrorCode::configuration_error);
}
