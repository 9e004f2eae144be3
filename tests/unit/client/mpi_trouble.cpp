#include "client/src/mpi/mpi_trouble.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <vector>

using namespace meshbus;
using mpi::Notice;

TEST_CASE("mpi_trouble: which notice ends a job") {
  std::vector<RankReport> ranks(2);
  ranks[1].rank = 1;
  ranks[1].state = ProcState::ready;
  MpiTrouble trouble;
  CHECK_FALSE(trouble.decide(ranks, false));
  trouble.add({.kind = Notice::Kind::unfinalized, .rank = 1});
  // It is not known yet how the rank has ended.
  CHECK_FALSE(trouble.decide(ranks, false));
  ranks[1].state = ProcState::stopped;
  ranks[1].exit_code = 3;
  CHECK_FALSE(trouble.decide(ranks, false));
  ranks[1].exit_code = 0;
  ranks[1].restarts = 1;
  CHECK_FALSE(trouble.decide(ranks, false));  // It was another attempt.
  ranks[1].restarts = 0;
  const auto verdict = trouble.decide(ranks, false);
  REQUIRE(verdict);
  CHECK(verdict->code == 1);
  CHECK(verdict->rank == 1);
}

TEST_CASE(
    "mpi_trouble: a rank that never calls MPI_Init ends the job when another one waits there") {
  std::vector<RankReport> ranks(3);
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].state = ProcState::ready;
  }
  MpiTrouble trouble;
  trouble.add({.kind = Notice::Kind::never_begun, .rank = 1});
  ranks[1].state = ProcState::stopped;
  CHECK_FALSE(trouble.decide(ranks, false));  // Nobody waits.
  trouble.add({.kind = Notice::Kind::begun, .rank = 2});
  ranks[2].state = ProcState::stopped;
  CHECK_FALSE(trouble.decide(ranks, false));  // Nobody waits any more.
  ranks[2].state = ProcState::ready;
  const auto verdict = trouble.decide(ranks, false);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->code == 1);
  CHECK(verdict->words ==
        "rank 1 ended with exit 0 and has not called MPI_Init, where the others wait for it");
}

TEST_CASE("mpi_trouble: an abort is named with its code, and never exits with 0") {
  std::vector<RankReport> ranks(4);
  ranks[3].state = ProcState::stopped;
  MpiTrouble trouble;
  trouble.add({.kind = Notice::Kind::abort, .rank = 3, .code = 256});
  CHECK_FALSE(trouble.decide(ranks, true));
  RankReport failure;
  failure.rank = 3;
  CHECK(trouble.words_of(failure) == "MPI_Abort(256) by rank 3");
  CHECK(trouble.abort_of(failure)->code == 1);
  failure.rank = 2;
  CHECK_FALSE(trouble.words_of(failure));
  const auto verdict = trouble.decide(ranks, false);
  REQUIRE(verdict);
  CHECK(verdict->code == 1);
  CHECK(trouble.last_words({}) == "meshbus: first cause: MPI_Abort(256) by rank 3\n");
}

TEST_CASE("mpi_trouble: an abort by the library, after another rank has failed, is no cause") {
  std::vector<RankReport> ranks(4);
  for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].rank = rank;
  MpiTrouble trouble;
  trouble.add({.kind = Notice::Kind::abort, .rank = 0, .code = 680600335});
  CHECK_FALSE(trouble.decide(ranks, /*may_restart=*/false).has_value());  // It is about to end.
  ranks[0].state = ranks[2].state = ProcState::stopped;
  const auto decided = trouble.decide(ranks, /*may_restart=*/false);
  REQUIRE(decided.has_value());
  CHECK(decided->rank == 0);
  // It had failed before, and that was heard of later.
  CHECK(trouble.end(ranks, ranks[2]));
  CHECK_FALSE(trouble.decide(ranks, /*may_restart=*/false).has_value());
  CHECK(trouble.last_words(ranks[2]).empty());
  CHECK_FALSE(trouble.end(ranks, ranks[2]));

  // The program itself has aborted.
  MpiTrouble own;
  own.add({.kind = Notice::Kind::abort, .rank = 0, .code = 7});
  REQUIRE(own.decide(ranks, /*may_restart=*/false).has_value());
  CHECK_FALSE(own.end(ranks, ranks[2]));
  CHECK_FALSE(own.end(ranks, std::nullopt));
  CHECK(own.decide(ranks, /*may_restart=*/false)->code == 7);
  // The library of the rank that failed first.
  MpiTrouble first;
  first.add({.kind = Notice::Kind::abort, .rank = 2, .code = 680600335});
  REQUIRE(first.decide(ranks, /*may_restart=*/false).has_value());
  CHECK_FALSE(first.end(ranks, ranks[2]));
}

TEST_CASE("mpi_trouble: an abort that follows the end of another rank is no cause, by its time") {
  std::vector<RankReport> ranks(4);
  for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].state = ProcState::ready;
  }
  // MPI_ERR_UNKNOWN: the library of rank 0 has lost rank 2.
  const Notice abort{.kind = Notice::Kind::abort, .rank = 0, .code = 14, .time_us = 1004};
  const Notice left{.kind = Notice::Kind::unfinalized, .rank = 2, .time_us = 1000};
  MpiTrouble trouble;
  trouble.add(left);
  trouble.add(abort);
  CHECK_FALSE(trouble.decide(ranks, false).has_value());  // How rank 2 has ended is not known yet.

  SUBCASE("it ended with exit 0") {
    ranks[2].state = ProcState::stopped;
    REQUIRE(trouble.decide(ranks, false).has_value());
    CHECK(trouble.decide(ranks, false)->rank == 2);
    CHECK_FALSE(trouble.end(ranks, std::nullopt));
    CHECK(trouble.last_words({}).find("rank 2 ended with exit 0") != std::string::npos);
  }
  SUBCASE("it failed") {
    ranks[2].state = ProcState::stopped;
    ranks[2].exit_code = 5;
    CHECK_FALSE(trouble.decide(ranks, false).has_value());
    CHECK_FALSE(trouble.end(ranks, ranks[2]));
    CHECK(trouble.last_words(ranks[2]).empty());
  }
  SUBCASE("it was stopped: the abort is the cause") {
    ranks[0].state = ProcState::stopped;
    ranks[2].state = ProcState::stopped;
    ranks[2].step = StopStep::term;
    REQUIRE(trouble.decide(ranks, false).has_value());
    CHECK(trouble.decide(ranks, false)->code == 14);
  }
}

TEST_CASE(
    "mpi_trouble: a helper may tell late that a rank has left; a program's own abort stands") {
  std::vector<RankReport> ranks(2);
  ranks[1].rank = 1;
  ranks[0].state = ranks[1].state = ProcState::stopped;
  for (const bool is_library : {true, false}) {
    CAPTURE(is_library);
    const int code = is_library ? 14 : 7;
    MpiTrouble trouble;
    trouble.add({.kind = Notice::Kind::abort, .rank = 0, .code = code, .time_us = 1000});
    CHECK(trouble.decide(ranks, false)->code == code);
    trouble.add({.kind = Notice::Kind::unfinalized, .rank = 1, .time_us = 90'000});
    CHECK(trouble.end(ranks, ranks[0]) == is_library);
    CHECK(trouble.decide(ranks, false)->rank == (is_library ? 1 : 0));
  }
}

TEST_CASE(
    "mpi_trouble: the program's abort is the cause, also when a library's was heard of first") {
  std::vector<RankReport> ranks(2);
  ranks[1].rank = 1;
  ranks[0].state = ranks[1].state = ProcState::stopped;
  ranks[0].exit_code = 14;
  ranks[1].exit_code = 7;
  MpiTrouble trouble;
  trouble.add({.kind = Notice::Kind::abort, .rank = 0, .code = 14, .time_us = 1003});
  CHECK(trouble.decide(ranks, false)->code == 14);
  trouble.add({.kind = Notice::Kind::abort, .rank = 1, .code = 7, .time_us = 1000});
  CHECK(trouble.end(ranks, ranks[0]));
  REQUIRE(trouble.decide(ranks, false));
  CHECK(trouble.decide(ranks, false)->code == 7);
  CHECK(trouble.last_words(ranks[0]) == "meshbus: first cause: MPI_Abort(7) by rank 1\n");
}

TEST_CASE("mpi_trouble: the rank that left is the first failure, also when its end comes later") {
  std::vector<RankReport> ranks(3);
  for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].state = ProcState::stopped;
  }
  ranks[0].exit_code = 14;
  ranks[2].exit_code = 5;
  ranks[2].step = StopStep::term;  // The stop because of rank 0 came while it was leaving.
  Notice abort{.kind = Notice::Kind::abort, .rank = 0, .code = 14, .time_us = 1004};
  const Notice left{.kind = Notice::Kind::unfinalized, .rank = 2, .time_us = 1000};
  const auto first = [&](const std::vector<Notice>& notices) {
    MpiTrouble trouble;
    for (const auto& notice : notices) trouble.add(notice);
    return trouble.first_failure(ranks, ranks[0])->rank;
  };
  CHECK(first({left, abort}) == 2);
  CHECK(first({abort}) == 0);
  SUBCASE("the program itself has aborted") {
    abort.code = 7;
    CHECK(first({left, abort}) == 0);
  }
  SUBCASE("it was stopped, and ended by that") {
    ranks[2].state = ProcState::killed;
    ranks[2].signal = 15;
    CHECK(first({left, abort}) == 0);
  }
  SUBCASE("its library has aborted, too") {
    CHECK(first({left, abort, {.kind = Notice::Kind::abort, .rank = 2, .code = 14}}) == 0);
    ranks[2].exit_code = 14;
    CHECK(first({left, abort}) == 0);
  }
  SUBCASE("that was another attempt") {
    ranks[2].restarts = 1;
    CHECK(first({left, abort}) == 0);
  }
  CHECK_FALSE(MpiTrouble().first_failure(ranks, std::nullopt).has_value());
}

TEST_CASE("mpi_trouble: a rank that was taken away is the first failure, also when reaped later") {
  std::vector<RankReport> ranks(3);
  for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].state = ProcState::stopped;
  }
  using std::chrono::microseconds;
  const auto at = [](std::int64_t us) {
    return std::chrono::system_clock::time_point(microseconds(us));
  };
  ranks[0].exit_code = 14;
  ranks[0].ended = at(1000);
  ranks[2].state = ProcState::killed;
  ranks[2].signal = 9;
  ranks[2].ended = at(400'000);
  MpiTrouble trouble;
  const auto first = [&] { return trouble.first_failure(ranks, ranks[0])->rank; };
  CHECK(first() == 2);  // The library of rank 0 says nothing, and exits.
  trouble.add({.kind = Notice::Kind::abort, .rank = 0, .code = 14, .time_us = 900});
  CHECK(first() == 2);
  SUBCASE("another one that left has done so before") {
    trouble.add({.kind = Notice::Kind::unfinalized, .rank = 1, .time_us = 800});
    ranks[1].exit_code = 5;
    CHECK(first() == 1);
  }
  SUBCASE("with its host, whose time of death nobody knows") {
    ranks[2].state = ProcState::failed;
    ranks[2].cause = Cause::host_lost;
    ranks[2].ended.reset();
    CHECK(first() == 2);
  }
  SUBCASE("long after the abort") {
    ranks[2].ended = at(1'100'000);
    CHECK(first() == 0);
  }
  SUBCASE("its program has aborted before") {
    trouble.add({.kind = Notice::Kind::abort, .rank = 2, .code = 3, .time_us = 950});
    CHECK(first() == 0);
  }
  SUBCASE("that was another attempt") {
    ranks[2].restarts = 1;
    CHECK(first() == 0);
  }
  SUBCASE("the first failure is the program's own") {
    ranks[0].exit_code = 3;
    CHECK(MpiTrouble().first_failure(ranks, ranks[0])->rank == 0);
  }
}

TEST_CASE("mpi_trouble: a stop waits for the cause of a library's abort, and not for long") {
  std::vector<RankReport> ranks(3);
  for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].state = ProcState::ready;
  }
  const MpiTrouble::Time begin{};
  const auto limit = MpiTrouble::kCauseLimit;
  MpiTrouble trouble;
  CHECK_FALSE(trouble.waits_until(ranks, begin));
  ranks[0].state = ProcState::stopped;
  ranks[0].exit_code = 14;
  CHECK(trouble.waits_until(ranks, begin) == begin + limit);
  CHECK(trouble.waits_until(ranks, begin + limit / 2) == begin + limit);
  SUBCASE("nothing else comes") {
    CHECK_FALSE(trouble.waits_until(ranks, begin + limit));
    // Another attempt has its own time.
    ranks[0] = RankReport{};
    ranks[0].restarts = 1;
    CHECK_FALSE(trouble.waits_until(ranks, begin + limit));
    ranks[0].state = ProcState::stopped;
    ranks[0].exit_code = 14;
    CHECK(trouble.waits_until(ranks, begin + limit * 3) == begin + limit * 4);
  }
  SUBCASE("all have ended") {
    for (auto& rank : ranks) rank.state = ProcState::stopped;
    CHECK_FALSE(trouble.waits_until(ranks, begin));
  }
  SUBCASE("the one that it has lost fails") {
    ranks[2].state = ProcState::killed;
    CHECK_FALSE(trouble.waits_until(ranks, begin));
  }
  SUBCASE("the one that it has lost ends with exit 0") {
    trouble.add({.kind = Notice::Kind::unfinalized, .rank = 2});
    CHECK(trouble.waits_until(ranks, begin));  // It has not ended.
    ranks[2].state = ProcState::stopped;
    CHECK_FALSE(trouble.waits_until(ranks, begin));
    CHECK(trouble.decide(ranks, /*may_restart=*/false)->rank == 2);
  }
  SUBCASE("another program calls MPI_Abort") {
    trouble.add({.kind = Notice::Kind::abort, .rank = 1, .code = 14});
    CHECK(trouble.waits_until(ranks, begin));
    trouble.add({.kind = Notice::Kind::abort, .rank = 2, .code = 7});
    CHECK_FALSE(trouble.waits_until(ranks, begin));
  }
  SUBCASE("a rank was refused a call") {
    trouble.add({.kind = Notice::Kind::refused, .rank = 0, .text = "MPI_Comm_spawn"});
    CHECK_FALSE(trouble.waits_until(ranks, begin));
  }
  SUBCASE("the ranks are being stopped") {
    ranks[1].state = ProcState::stopped;
    ranks[1].step = StopStep::term;
    CHECK_FALSE(trouble.waits_until(ranks, begin));
  }
}

TEST_CASE("mpi_trouble: what was decided for an abort changes when an earlier end is heard of") {
  std::vector<RankReport> ranks(2);
  ranks[1].rank = 1;
  ranks[1].state = ProcState::ready;
  MpiTrouble trouble;
  trouble.add({.kind = Notice::Kind::abort, .rank = 0, .code = 14, .time_us = 1004});
  ranks[0].state = ProcState::stopped;
  CHECK(trouble.decide(ranks, false)->code == 14);
  trouble.add({.kind = Notice::Kind::unfinalized, .rank = 1, .time_us = 1001});
  ranks[1].state = ProcState::stopped;
  CHECK(trouble.end(ranks, ranks[0]));
  CHECK(trouble.decide(ranks, false)->rank == 1);

  // A rank that loses the one that has called MPI_Abort aborts, too.
  MpiTrouble own;
  own.add({.kind = Notice::Kind::abort, .rank = 0, .code = 7, .time_us = 1000});
  own.add({.kind = Notice::Kind::abort, .rank = 1, .code = 14, .time_us = 1003});
  own.add({.kind = Notice::Kind::unfinalized, .rank = 1, .time_us = 1003});
  CHECK(own.abort_of(ranks[1])->code == 7);
  CHECK(own.decide(ranks, false)->code == 7);
  CHECK_FALSE(own.end(ranks, ranks[1]));
  CHECK(own.decide(ranks, false)->code == 7);

  // The end of that one is heard of first, and its own abort is known to follow from the other.
  MpiTrouble late;
  late.add({.kind = Notice::Kind::abort, .rank = 0, .code = 7, .time_us = 1000});
  late.add({.kind = Notice::Kind::unfinalized, .rank = 0, .time_us = 1001});
  late.add({.kind = Notice::Kind::abort, .rank = 1, .code = 14, .time_us = 1003});
  CHECK_FALSE(late.end(ranks, ranks[1]));
  REQUIRE(late.abort_of(ranks[1]));
  CHECK(late.abort_of(ranks[1])->code == 7);
  CHECK(late.last_words(ranks[1]) == "meshbus: first cause: MPI_Abort(7) by rank 0\n");

  // Its library says nothing, and exits: after the abort, or before it.
  using std::chrono::microseconds;
  MpiTrouble mute;
  mute.add({.kind = Notice::Kind::abort, .rank = 0, .code = 7, .time_us = 1000});
  ranks[1].exit_code = 14;
  ranks[1].ended = std::chrono::system_clock::time_point(microseconds(1003));
  REQUIRE(mute.abort_of(ranks[1]));
  CHECK(mute.abort_of(ranks[1])->code == 7);
  ranks[1].ended = std::chrono::system_clock::time_point(microseconds(999));
  CHECK_FALSE(mute.abort_of(ranks[1]));
  ranks[1].exit_code = 3;
  ranks[1].ended = std::chrono::system_clock::time_point(microseconds(1003));
  CHECK_FALSE(mute.abort_of(ranks[1]));
}
