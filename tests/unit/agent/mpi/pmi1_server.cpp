#include "agent/mpi/pmi1_server.h"

#include <doctest/doctest.h>

using namespace meshbus::mpi;

namespace {

std::string only_reply(const Pmi1Server::Outcome& outcome) {
  return outcome.replies.size() == 1 ? outcome.replies.front().second : "";
}

}  // namespace

TEST_CASE("pmi1: what ranks ask first") {
  Pmi1Server server(RankLayout(5, 2), 1);
  CHECK(only_reply(server.on_line(3, "cmd=init pmi_version=1 pmi_subversion=1")) ==
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  CHECK(server.is_inside(3));
  CHECK(only_reply(server.on_line(3, "cmd=get_universe_size")) == "cmd=universe_size size=5\n");
  CHECK(only_reply(server.on_line(3, "cmd=get kvsname=meshbus key=PMI_process_mapping")) ==
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,3),(1,1,2))\n");
  CHECK(only_reply(server.on_line(3, "cmd=finalize")) == "cmd=finalize_ack\n");
  CHECK_FALSE(server.is_inside(3));
}

TEST_CASE("pmi1: a barrier carries what was put to the other host, with blanks and '='") {
  Pmi1Server here(RankLayout(3, 2), 0);
  Pmi1Server there(RankLayout(3, 2), 1);
  CHECK(only_reply(here.on_line(0, "cmd=put kvsname=meshbus key=a value=x y=z")) ==
        "cmd=put_result rc=0 msg=success\n");
  CHECK_FALSE(here.on_line(0, "cmd=barrier_in").fence);
  const auto fence = here.on_line(1, "cmd=barrier_in").fence;
  REQUIRE(fence);
  const auto empty = there.on_line(2, "cmd=barrier_in").fence;
  REQUIRE(empty);
  CHECK(empty->empty());
  const auto out = there.on_fence(*fence + *empty);
  CHECK(only_reply(out) == "cmd=barrier_out\n");
  CHECK(here.on_fence(*fence + *empty).replies.size() == 2);
  CHECK(only_reply(there.on_line(2, "cmd=get kvsname=meshbus key=a")) ==
        "cmd=get_result rc=0 msg=success value=x y=z\n");
  CHECK(only_reply(there.on_line(2, "cmd=get kvsname=meshbus key=b"))
            .starts_with("cmd=get_result rc=-1 "));
  // The next barrier carries only what is new.
  here.on_line(0, "cmd=barrier_in");
  CHECK(here.on_line(1, "cmd=barrier_in").fence == "");
}

TEST_CASE("pmi1: abort and spawn are told the launcher") {
  Pmi1Server server(RankLayout(2, 1), 0);
  const auto abort = server.on_line(1, "cmd=abort exitcode=7");
  REQUIRE(abort.notice);
  // MPI_Abort would return.
  CHECK(abort.replies.empty());
  CHECK(abort.aborts);
  CHECK(*abort.notice == Notice{.kind = Notice::Kind::abort, .rank = 1, .code = 7});
  const auto spawn = server.on_line(0, "mcmd=spawn");
  REQUIRE(spawn.notice);
  CHECK(spawn.notice->kind == Notice::Kind::refused);
  CHECK(only_reply(spawn).starts_with("cmd=spawn_result rc=-1"));
}

TEST_CASE("pmi1: what is not known is refused, not ignored") {
  Pmi1Server server(RankLayout(2, 1), 0);
  CHECK(only_reply(server.on_line(0, "cmd=getbyidx idx=0")) ==
        "cmd=getbyidx_result rc=-1 msg=not_supported\n");
  CHECK(server.on_line(0, "").replies.empty());
}

TEST_CASE("mpi layout: blocks as meshes have them") {
  for (std::uint64_t hosts = 1; hosts < 8; ++hosts) {
    for (std::uint64_t ranks = 1; ranks < 20; ++ranks) {
      const RankLayout layout(ranks, hosts);
      std::uint64_t next = 0;
      for (std::uint64_t host = 0; host < hosts; ++host) {
        const auto block = layout.block_of(host);
        CHECK(block.begin == next);
        for (; next < block.end; ++next) CHECK(layout.host_of(next) == host);
      }
      CHECK(next == ranks);
      CHECK(layout.used_hosts().size() == std::min(ranks, hosts));
    }
  }
  CHECK(RankLayout(6, 2).process_mapping() == "(vector,(0,2,3))");
  CHECK(RankLayout(1, 2).process_mapping() == "(vector,(0,1,1))");
}

TEST_CASE("mpi notice: a line comes back as it was, and other lines are none") {
  const Notice notice{.kind = Notice::Kind::refused,
                      .rank = 12,
                      .code = -3,
                      .attempt = 2,
                      .time_us = 5,
                      .text = "a b"};
  const auto line = notice.to_line();
  CHECK(Notice::parse(line.substr(0, line.size() - 1)) == notice);
  for (const char* other : {"", "hello", "meshbus-mpi: ", "meshbus-mpi: abort x 1 0 0 ",
                            "meshbus-mpi: abort 1 1 0 x", "meshbus-mpi: what 1 1 0 0 "})
    CHECK_FALSE(Notice::parse(other));
}
