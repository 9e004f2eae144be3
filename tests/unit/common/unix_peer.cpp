#include "common/base/unix_peer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/access/dial_policy.h"
#include "common/base/unique_fd.h"

using namespace meshbus;

TEST_CASE("unix peer: a process trusts its own user and root") {
  CHECK(is_trusted_uid(1000, 1000));
  CHECK(is_trusted_uid(0, 1000));
  CHECK(is_trusted_uid(0, 0));
  CHECK_FALSE(is_trusted_uid(1001, 1000));
  CHECK_FALSE(is_trusted_uid(1000, 0));
}

TEST_CASE("unix peer: the broker of root hears procs of other users; no other broker does") {
  CHECK(may_connect(1000, 0));
  CHECK(may_connect(1000, 1000));
  CHECK(may_connect(0, 1000));
  CHECK_FALSE(may_connect(1001, 1000));
}

TEST_CASE("unix peer: what is no unix connection has no peer and is not trusted") {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd one(ends[0]), other(ends[1]);
  const auto peer = unix_peer_of(one.get());
  REQUIRE(peer.has_value());
  CHECK(peer->uid == ::geteuid());
  CHECK(peer->pid == ::getpid());
  CHECK(check_unix_listener(one.get()).has_value());

  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  CHECK_FALSE(unix_peer_of(reader.get()).has_value());
  const auto refused = check_unix_listener(reader.get());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::unauthorised);
}

TEST_CASE("dial policy: unix sockets are for local peers; the answer depends on the text alone") {
  const auto path = *HostAddr::parse("unix:/no/such/path");
  const auto abstract = *HostAddr::parse("unix:@name");
  const auto tcp = *HostAddr::parse("tcp:h1:7420");
  CHECK(may_dial(path, /*is_local=*/true).has_value());
  CHECK(may_dial(tcp, /*is_local=*/true).has_value());
  CHECK(may_dial(tcp, /*is_local=*/false).has_value());
  for (const HostAddr& host : {path, abstract}) {
    const auto refused = may_dial(host, /*is_local=*/false);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::unauthorised);
    CHECK(refused.error().detail().find("--hosts unix:PATH") != std::string::npos);
  }
}
