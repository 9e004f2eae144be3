// What comes into the inbox for large bodies, from its own user and from others.
#include "common/bus/share_inbox.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/unix_address.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

struct World {
  void turn() { reactor.turn(0ms); }
  Reactor::Time now{100s};
  Reactor reactor{[this] { return now; }};
  ShareInbox inbox{reactor};
  UniqueFd memory{::memfd_create("test", MFD_CLOEXEC)};
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

UniqueFd connect_to(const std::string& address) {
  UniqueFd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const UnixAddress to(address);
  REQUIRE(::connect(connection.get(), to.get(), to.size()) == 0);
  return connection;
}

/// Sends bytes with so many copies of that descriptor.
void send(int connection, const std::string& bytes, std::size_t copies, int descriptor) {
  std::vector<int> descriptors(copies, descriptor);
  std::vector<char> control(CMSG_SPACE(copies * sizeof(int)));
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (copies > 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    auto* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(copies * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), copies * sizeof(int));
  }
  REQUIRE(::sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

bool is_closed(int connection) {
  char byte = 0;
  return ::recv(connection, &byte, 1, MSG_DONTWAIT) == 0;
}

/// Acts as another user.
class AsNobody {
 public:
  AsNobody() { REQUIRE(::seteuid(65534) == 0); }
  ~AsNobody() { CHECK(::seteuid(0) == 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
};

const std::string kTicket(sizeof(ShareTicket), 't');

}  // namespace

TEST_CASE("share_inbox: a descriptor is found by its ticket, once, without a turn of the loop") {
  World world;
  const auto address = world.inbox.address().value();
  CHECK(world.inbox.address().value() == address);
  REQUIRE(ShareInbox::put(address, {1, 2}, world.memory.get()).has_value());
  REQUIRE(ShareInbox::put(address, {3, 4}, world.memory.get()).has_value());
  CHECK(world.inbox.take({3, 4}).has_value());
  const auto missing = world.inbox.take({1, 3});
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code() == ErrorCode::io_error);
  const auto taken = world.inbox.take({1, 2});
  REQUIRE(taken.has_value());
  CHECK((::fcntl(taken->get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_FALSE(world.inbox.take({1, 2}).has_value());
  CHECK(world.inbox.count() == 0);
  CHECK(world.inbox.refused() == 0);
}

TEST_CASE("share_inbox: a connection may bring its descriptor later") {
  World world;
  const auto connection = connect_to(world.inbox.address().value());
  world.turn();
  CHECK(world.inbox.count() == 1);
  ShareTicket ticket{5, 6};
  send(connection.get(), std::string(reinterpret_cast<const char*>(&ticket), sizeof ticket), 1,
       world.memory.get());
  CHECK(world.inbox.take(ticket).has_value());
  CHECK(world.inbox.count() == 0);
}

TEST_CASE("share_inbox: what is no ticket with one descriptor is closed, and nothing is kept") {
  World world;
  const auto address = world.inbox.address().value();
  const auto before = open_descriptors();
  const auto refused = [&](const std::string& bytes, std::size_t copies) {
    const auto connection = connect_to(address);
    send(connection.get(), bytes, copies, world.memory.get());
    const auto count = world.inbox.refused();
    world.turn();
    CHECK(world.inbox.refused() == count + 1);
    CHECK(world.inbox.count() == 0);
    CHECK(is_closed(connection.get()));
  };
  refused(kTicket, 0);
  refused(kTicket, 2);
  refused(kTicket, 200);
  refused(kTicket + "x", 1);
  refused("short", 1);
  refused(std::string(100'000, 'x'), 1);
  {
    connect_to(address);
  }
  world.turn();
  CHECK(world.inbox.count() == 0);
  CHECK(open_descriptors() == before);
}

TEST_CASE("share_inbox: strangers cannot fill it, and what is old goes") {
  World world;
  const auto address = world.inbox.address().value();
  std::vector<UniqueFd> connections;
  for (std::size_t i = 0; i < 3 * ShareInbox::kMostWaiting; ++i) {
    connections.push_back(connect_to(address));
    world.turn();
  }
  CHECK(world.inbox.count() == ShareInbox::kMostWaiting);
  CHECK(is_closed(connections.front().get()));
  CHECK_FALSE(is_closed(connections.back().get()));
  for (std::uint64_t i = 0; i < 3 * ShareInbox::kMostKept; ++i) {
    REQUIRE(ShareInbox::put(address, {i, 1}, world.memory.get()).has_value());
    world.turn();
  }
  CHECK(world.inbox.count() == ShareInbox::kMostWaiting + ShareInbox::kMostKept);
  CHECK_FALSE(world.inbox.take({0, 1}).has_value());
  CHECK(world.inbox.take({3 * ShareInbox::kMostKept - 1, 1}).has_value());
  world.now += ShareInbox::kIdle;
  world.turn();
  CHECK(world.inbox.count() == 0);
  CHECK(is_closed(connections.back().get()));
}

TEST_CASE("share_inbox: connections that bring nothing go, too") {
  World world;
  const auto address = world.inbox.address().value();
  const UniqueFd one = connect_to(address);
  world.turn();
  CHECK(world.inbox.count() == 1);
  world.now += ShareInbox::kIdle;
  world.turn();
  CHECK(world.inbox.count() == 0);
  CHECK(is_closed(one.get()));
}

TEST_CASE("share_inbox: without a descriptor left it rests, and goes on when there is one") {
  World world;
  const auto address = world.inbox.address().value();
  const auto connection = connect_to(address);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  {
    const UniqueFd next(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    rlimit low = limit;
    low.rlim_cur = static_cast<rlim_t>(next.get());
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  world.turn();
  CHECK(world.inbox.count() == 0);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  world.turn();
  CHECK(world.inbox.count() == 0);  // it does not even look
  world.now += ShareInbox::kExhausted;
  world.turn();
  world.turn();
  CHECK(world.inbox.count() == 1);
}

TEST_CASE("share_inbox: another user gets nothing in, and nothing is put where one listens") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can act as another user");
    return;
  }
  World world;
  const auto address = world.inbox.address().value();
  {
    // Root takes from root only, and puts into its own only.
    UniqueFd connection;
    {
      const AsNobody nobody;
      connection = connect_to(address);
    }
    world.turn();
    CHECK(world.inbox.refused() == 1);
    CHECK(is_closed(connection.get()));
  }
  World other;
  std::string of_other;
  {
    const AsNobody nobody;
    of_other = other.inbox.address().value();
  }
  const auto put = ShareInbox::put(of_other, {1, 2}, world.memory.get());
  REQUIRE_FALSE(put.has_value());
  CHECK(put.error().code() == ErrorCode::unauthorised);
}

TEST_CASE("share_inbox: it connects to inboxes only") {
  World world;
  for (const std::string& address :
       {std::string("/run/other"), std::string("@meshbus-body-"), std::string("@meshbus-body-x"),
        "@other-thing-" + std::string(33, '0'),
        std::string(ShareInbox::kPrefix) + std::string(32, '0'), std::string()}) {
    const auto put = ShareInbox::put(address, {1, 2}, world.memory.get());
    REQUIRE_FALSE(put.has_value());
    CHECK(put.error().code() == ErrorCode::io_error);
  }
}
