// Bodies that are larger than a message may be (spec 9.2).
#include <algorithm>
#include <csignal>
#include <future>
#include <random>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::size_t kMiB = 1024 * 1024;

/// Two procs that echo, on one host or on two.
struct Echoes {
  explicit Echoes(std::string_view host_extent,
                  std::vector<std::pair<std::string, std::string>> settings = {})
      : context(must(Context::create(quick(std::move(settings))))),
        hosts(must(HostMesh::process(context, extent(host_extent), of_this_build()))) {
    mesh.emplace(
        must(hosts.spawn("echoes", extent(host_extent == "host=2" ? "gpu=1" : "gpu=2"),
                         {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}},
                         heard.handlers())));
  }
  ProcRef proc(std::uint64_t rank) const { return must(mesh->proc(rank)); }
  Result<std::string> call(std::uint64_t rank, std::uint32_t port, const std::string& body,
                           std::chrono::milliseconds deadline = in_time) {
    return proc(rank).call(context, port, body, deadline);
  }

  Context context;
  HostMesh hosts;
  Heard heard;
  std::optional<ProcMesh> mesh;
};

/// Bytes that tell where they belong.
std::string random_body(std::size_t size) {
  std::mt19937_64 random(size);
  std::string body(size, '\0');
  for (char& one : body) one = static_cast<char>(random());
  return body;
}

}  // namespace

TEST_CASE("client: spec 9.2: bodies above 1 MiB come and go whole, on one host and over two") {
  for (const char* host_extent : {"host=1", "host=2"}) {
    CAPTURE(host_extent);
    Echoes echoes(host_extent);
    for (const std::size_t size : {kMiB - 16, kMiB - 15, kMiB, kMiB + 1, 3 * kMiB + 5, 24 * kMiB}) {
      CAPTURE(size);
      const auto body = random_body(size);
      CHECK((must(echoes.call(0, 1, body)) == body));               // there and back
      CHECK((must(echoes.call(1, 9, body)) == "from 1: " + body));  // and from proc to proc
    }
    must(echoes.hosts.shutdown(in_time));
  }
}

TEST_CASE("client: spec 9.2: large messages arrive between those before and those behind them") {
  Echoes echoes("host=1");
  const auto send = [&](std::size_t size) {
    return echoes.context.send(must(echoes.mesh->ref().proc_at(0)), 19, std::string(size, 'x'));
  };
  for (const std::size_t size : {std::size_t{1}, 5 * kMiB, std::size_t{2}, kMiB + 1, kMiB})
    REQUIRE(send(size).has_value());
  CHECK(must(echoes.call(0, 19, "?")) == "1+ 5242880+ 2+ 1048577+ 1048576+ ");
  // From proc to proc, as a shared body, too.
  CHECK(must(echoes.call(0, 18, std::to_string(2 * kMiB))) == "let go");
  CHECK(must(echoes.call(1, 19, "?")) == "2097152+ 2097152+ 2097152+ ");
  must(echoes.hosts.shutdown(in_time));
}

TEST_CASE("client: pieces and shared bodies arrive as one body, of whatever size") {
  for (const char* host_extent : {"host=1", "host=2"}) {
    CAPTURE(host_extent);
    Echoes echoes(host_extent);
    const auto ref = echoes.mesh->ref();
    for (const std::size_t size : {std::size_t{100}, std::size_t{40'000}, 5 * kMiB}) {
      CAPTURE(size);
      const auto body = random_body(size);
      const std::string_view all = body;
      const std::string_view pieces[] = {
          all.substr(0, 7), {}, all.substr(7, size / 2), all.substr(7 + size / 2)};
      CHECK((must(echoes.proc(1).call(echoes.context, 1, pieces, in_time)) == body));
      CHECK((must(echoes.proc(0).call(echoes.context, 1, SharedBody::of(body), in_time)) == body));
      CHECK(
          (must(echoes.proc(0).call(echoes.context, 1, SharedBody::copy(body), in_time)) == body));
      for (const auto& answer : must(echoes.context.call(ref, 1, pieces, in_time)))
        CHECK((must(answer) == body));
      for (const auto& answer : must(echoes.context.call(ref, 1, SharedBody::copy(body), in_time)))
        CHECK((must(answer) == body));
    }
    // Without an answer, in order.
    const std::string xs(3 * kMiB, 'x');
    const std::string_view pieces[] = {std::string_view(xs).substr(1), "x"};
    REQUIRE(echoes.context.send(must(ref.proc_at(0)), 19, pieces).has_value());
    REQUIRE(echoes.context.send(must(ref.proc_at(0)), 19, {"xx", 2}).has_value());
    REQUIRE(echoes.context.cast(ref, 19, pieces).has_value());
    CHECK(must(echoes.call(0, 19, "?")) == "3145728+ 2+ 3145728+ ");
    must(echoes.hosts.shutdown(in_time));
  }
}

TEST_CASE(
    "client: a handler keeps a body that came, large or small, without a copy of a large one") {
  Echoes echoes("host=2");
  const auto small = random_body(100);
  const auto large = random_body(3 * kMiB);
  const auto in_message = random_body(500'000);
  for (const auto& body : {small, in_message, large}) {
    CHECK(must(echoes.call(0, 22, body)) ==
          (body.size() > 64 * 1024 ? "kept as it lies" : "kept a copy"));
    CHECK(echoes.context.send(must(echoes.mesh->ref().proc_at(0)), 22, body).has_value());
  }
  // What came since lies elsewhere.
  for (int i = 0; i < 20; ++i) CHECK((must(echoes.call(0, 1, in_message)) == in_message));
  const auto kept = must(echoes.call(0, 23, ""));
  CHECK((kept == small + small + in_message + in_message + large + large));
  must(echoes.hosts.shutdown(in_time));
}

TEST_CASE("client: pieces and shared bodies go from rank to rank, too") {
  Echoes echoes("host=1");
  std::string arrived;
  for (const std::size_t size : {std::size_t{100}, std::size_t{40'000}, 2 * kMiB}) {
    CHECK(must(echoes.call(0, 24, std::string(size, 'x'))).empty());
    for (int i = 0; i < 6; ++i) arrived += std::to_string(size) + "+ ";
  }
  CHECK(must(echoes.call(1, 19, "?")) == arrived);
  must(echoes.hosts.shutdown(in_time));
}

TEST_CASE("client: what is kept of large bodies counts for what a proc has room for") {
  Echoes echoes("host=1", {{"message.limit", "2MiB"}});
  const std::string body(2 * kMiB, 'x');
  for (int i = 0; i < 2; ++i) CHECK(must(echoes.call(0, 22, body)) == "kept as it lies");
  const auto refused = echoes.call(0, 22, body);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::queue_full);
  CHECK(refused.error().detail().find("4194304 are on their way to it or in use") !=
        std::string::npos);
  CHECK((must(echoes.call(1, 1, body)) == body));  // the other one has room
  must(echoes.hosts.shutdown(in_time));
}

TEST_CASE("client: spec 9.2: what is above message.limit is refused with both sizes") {
  Echoes echoes("host=1", {{"message.limit", "4MiB"}});
  const std::string body(5 * kMiB, 'x');
  const auto call = echoes.call(0, 1, body);
  REQUIRE_FALSE(call.has_value());
  CHECK(call.error().code() == ErrorCode::too_large);
  CHECK(call.error().detail().find("a body of 5242880 bytes; the limit is 4194304") !=
        std::string::npos);
  CHECK(echoes.context.send(must(echoes.mesh->ref().proc_at(0)), 19, body).error().code() ==
        ErrorCode::too_large);
  // The receiver has a limit of its own.
  REQUIRE(must(
      echoes.context.change_settings(echoes.mesh->ref(), {{"message.limit", "2MiB"}}, in_time))[0]);
  const auto larger = echoes.call(0, 1, body.substr(0, 3 * kMiB));
  REQUIRE_FALSE(larger.has_value());
  CHECK(larger.error().code() == ErrorCode::too_large);
  CHECK(larger.error().detail().find(
            "a body of 3145728 bytes; the receiver takes at most 2097152") != std::string::npos);
  CHECK(must(echoes.call(0, 1, body.substr(0, 2 * kMiB))).size() == 2 * kMiB);
  must(echoes.hosts.shutdown(in_time));
}

TEST_CASE("client: spec 9.2: a receiver that stops or dies in the middle is told, and in time") {
  Echoes echoes("host=1");
  const auto body = random_body(32 * kMiB);
  REQUIRE(echoes.mesh->signal({RankBlock{0, 1}}, SIGSTOP).has_value());
  const auto begin = std::chrono::steady_clock::now();
  const auto late = echoes.call(0, 1, body, 500ms);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == ErrorCode::timeout);
  CHECK(std::chrono::steady_clock::now() - begin < in_time / 2);
  auto cut = std::async(std::launch::async, [&] { return echoes.call(0, 1, body); });
  // The other rank is not held up by what waits for this one.
  CHECK((must(echoes.call(1, 1, body)) == body));
  REQUIRE(echoes.mesh->signal({RankBlock{0, 1}}, SIGKILL).has_value());
  const auto dead = cut.get();
  REQUIRE_FALSE(dead.has_value());
  INFO(dead.error().to_string());
  CHECK((dead.error().code() == ErrorCode::fate_unknown ||
         dead.error().code() == ErrorCode::no_such_proc));
  must(echoes.hosts.shutdown(in_time));
}

TEST_CASE("client: spec 9.2: large casts reach every rank whole, and each answers for itself") {
  Echoes echoes("host=2");
  const auto ref = echoes.mesh->ref();
  // In one message, around what that has room for, and before it.
  for (const std::size_t size : {kMiB - 2048, kMiB - 512, kMiB - 256, kMiB - 128, kMiB - 64,
                                 kMiB - 1, kMiB, kMiB + 1, 10 * kMiB}) {
    const auto body = random_body(size);
    const auto answers = must(echoes.context.call(ref, 1, body, in_time));
    REQUIRE(answers.size() == 2);
    for (const auto& answer : answers) CHECK((must(answer) == body));
  }
  // Between smaller messages, in order.
  REQUIRE(echoes.context.cast(ref, 19, "x").has_value());
  REQUIRE(echoes.context.cast(ref, 19, std::string(3 * kMiB, 'x')).has_value());
  REQUIRE(echoes.context.cast(ref, 19, "xx").has_value());
  for (const auto& sizes : must(echoes.context.call(ref, 19, "?", in_time)))
    CHECK(must(sizes) == "1+ 3145728+ 2+ ");
  // A rank that dies in the middle: the other one gets its body.
  REQUIRE(echoes.mesh->signal({RankBlock{0, 1}}, SIGSTOP).has_value());
  const auto body = random_body(16 * kMiB);
  auto asked = std::async(std::launch::async,
                          [&] { return must(echoes.context.call(ref, 1, body, in_time)); });
  CHECK(asked.wait_for(300ms) == std::future_status::timeout);
  REQUIRE(echoes.mesh->signal({RankBlock{0, 1}}, SIGKILL).has_value());
  const auto answers = asked.get();
  REQUIRE_FALSE(answers[0].has_value());
  INFO(answers[0].error().to_string());
  CHECK((answers[0].error().code() == ErrorCode::fate_unknown ||
         answers[0].error().code() == ErrorCode::no_such_proc));
  CHECK((must(answers[1]) == body));
  must(echoes.hosts.shutdown(in_time));
}
