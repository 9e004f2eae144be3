#include "agent/mpi/exchange.h"

#include <doctest/doctest.h>

#include <deque>
#include <memory>

using namespace meshbus::mpi;

namespace {

using Hosts = std::vector<std::uint64_t>;

/// Helpers whose letters travel when deliver() says so.
class World {
 public:
  explicit World(std::uint64_t hosts) {
    for (std::uint64_t host = 0; host < hosts; ++host)
      helpers_.push_back(
          std::make_unique<Exchange>(host, [this, host](const Hosts& to, const Letter& letter) {
            for (const auto one : to) letters_.push_back({host, one, letter});
          }));
  }
  Exchange& at(std::uint64_t host) { return *helpers_[host]; }
  std::size_t deliver() {
    std::size_t count = 0;
    for (; !letters_.empty(); ++count) {
      const auto next = letters_.front();
      letters_.pop_front();
      at(next.to).on_letter(next.from, next.letter);
    }
    return count;
  }

 private:
  struct Underway {
    std::uint64_t from;
    std::uint64_t to;
    Letter letter;
  };
  std::vector<std::unique_ptr<Exchange>> helpers_;
  std::deque<Underway> letters_;
};

}  // namespace

TEST_CASE("mpi exchange: every participant gets all parts in the order of hosts") {
  World world(3);
  std::map<std::uint64_t, std::string> got;
  const auto begin = [&](std::uint64_t host, std::string part) {
    world.at(host).begin("k", {0, 1, 2}, std::move(part),
                         [&got, host](const std::string& whole) { got[host] = whole; });
  };
  begin(2, "c");
  begin(1, "b");
  // The root has not begun when these arrive.
  CHECK(world.deliver() == 2);
  CHECK(got.empty());
  begin(0, "a");
  CHECK(world.deliver() == 2);
  CHECK(got == std::map<std::uint64_t, std::string>{{0, "abc"}, {1, "abc"}, {2, "abc"}});
}

TEST_CASE("mpi exchange: some hosts meet without the others, and twice under two keys") {
  World world(3);
  std::string got;
  for (const char* key : {"k 0", "k 1"})
    for (const std::uint64_t host : {1U, 2U})
      world.at(host).begin(key, {1, 2}, std::to_string(host),
                           [&got](const std::string& whole) { got += whole + " "; });
  world.deliver();
  CHECK(got == "12 12 12 12 ");
}

TEST_CASE("mpi exchange: a host alone has all at once, and late copies mean nothing") {
  World world(1);
  std::string got;
  world.at(0).begin("k", {0}, "a", [&got](const std::string& whole) { got += whole; });
  CHECK(got == "a");
  world.at(0).on_letter(0, {.kind = Letter::Kind::whole, .key = "k", .value = 0, .body = "a"});
  CHECK(got == "a");
}

TEST_CASE("mpi letter: what is larger than a message arrives whole, also mixed with others") {
  const Letter large{
      .kind = Letter::Kind::whole, .key = "k 1", .value = 7, .body = std::string(1000, 'x') + "y"};
  const Letter empty{.kind = Letter::Kind::ask, .key = "k", .value = 3, .body = {}};
  const auto messages = to_messages(large, 100);
  REQUIRE(messages.size() == 11);
  LetterAssembly assembly;
  for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
    CHECK_FALSE(assembly.add(1, messages[i]));
    CHECK(assembly.add(2, to_messages(empty).front()) == empty);
  }
  CHECK(assembly.add(1, messages.back()) == large);
}

TEST_CASE("mpi letter: malformed messages are ignored") {
  LetterAssembly assembly;
  CHECK_FALSE(assembly.add(1, ""));
  CHECK_FALSE(assembly.add(1, std::string(12, '\0')));
  auto message = to_messages({.kind = Letter::Kind::ask, .key = "key", .value = 1, .body = {}});
  CHECK_FALSE(assembly.add(1, message.front().substr(0, message.front().size() - 1)));
  const auto two =
      to_messages({.kind = Letter::Kind::part, .key = "k", .value = 0, .body = "ab"}, 1);
  CHECK_FALSE(assembly.add(1, two[1]));  // Its first message was lost.
}
