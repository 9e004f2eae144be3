#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/src/monitors/rank_table.h"
#include "meshbus/proc_mesh.h"
#include "wire/logs_generated.h"

namespace meshbus {

/// Puts the output of one mesh together: what comes twice is dropped, a gap is asked for again, and
/// the end of a rank's output is believed when all of it has come. Pure: no clock, socket or
/// thread.
class OutputReceiver {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Output that is silent for this long is asked for again: agents keep what was not taken.
  static constexpr std::chrono::seconds kAskAgain{1};
  /// The agents of an ended mesh that are silent about its output for this long have no more of it.
  /// Living agents say when output has ended, and lost hosts are not waited for; so this is for an
  /// agent that is being replaced on an overloaded machine (more than 5 s were seen).
  static constexpr std::chrono::seconds kSilenceLimit{30};
  /// The same when the agents send the output to an address that this launcher does not have any
  /// more (spec 6.8).
  static constexpr std::chrono::seconds kMovedLimit{2};
  /// The same when all that is missing is of hosts that have said that they are lost. An agent says
  /// so last of all; what its broker still holds then leaves within 200 ms, or never.
  static constexpr std::chrono::seconds kLastWordsLimit{1};

  struct Chunk {
    std::uint64_t rank;
    Stream stream;
    std::string bytes;
  };
  struct Batch {
    std::vector<Chunk> chunks;
    /// Ranks whose output is complete with this batch.
    std::vector<std::uint64_t> ended;
    /// What the agent is to be told, without `ended`: that follows when the handler has run.
    wire::OutputTakenT taken;
  };

  explicit OutputReceiver(std::uint64_t ranks) : is_ended_(ranks), received_(ranks) {}

  /// What is new in a message of that host. `is_wanted`: chunks are wanted, not only counted.
  Batch receive(const HostAddr& from, const wire::Output& output, const RankTable& table,
                bool is_wanted, Time now);
  /// The handler has run for that batch.
  void on_handled(const std::vector<std::uint64_t>& ended, Time now);
  /// Whether all that came is handled, more is expected, and nothing has come for kAskAgain. Counts
  /// as asked then.
  bool should_ask_again(const RankTable& table, Time now);
  /// A rank has begun another incarnation, or will not begin it after all.
  void set_ended(std::uint64_t rank, bool is_ended) { is_ended_[rank] = is_ended; }

  /// A rank begins on another host, which counts its output from the beginning.
  void begin_anew(std::uint64_t rank) {
    is_ended_[rank] = false;
    received_[rank] = {};
  }

  /// The mesh has so many ranks now; nothing has come of those that it did not have.
  void resize(std::uint64_t ranks) {
    is_ended_.resize(ranks);
    received_.resize(ranks);
  }
  /// Whether all output of that rank, and of those after it, has come and was handled.
  bool is_over_from(std::uint64_t rank, const RankTable& table) const;

  bool is_idle() const noexcept { return unhandled_ == 0; }
  /// Whether all output of the mesh has come and was handled.
  bool is_over(const RankTable& table) const;
  /// Whether all output of that host's ranks has come.
  bool is_over_on(const HostAddr& host, const RankTable& table) const;
  /// The host is lost: nothing more is expected from it, also not for ranks that had ended before.
  void lose(const HostAddr& host, const RankTable& table);
  /// The launcher has another address than the one to which the agents send.
  void on_moved() { limit_ = kMovedLimit; }
  /// When the silence of an ended mesh has lasted too long. The first call starts it.
  Time give_up_at(const RankTable& table, Time now);

 private:
  bool is_rank_over(const RankReport& rank) const;

  std::vector<bool> is_ended_;
  /// By rank: bytes of stdout and of stderr that have come without a gap.
  std::vector<std::array<std::uint64_t, 2>> received_;
  std::chrono::seconds limit_ = kSilenceLimit;
  /// Batches that wait for, or are in, the handler.
  std::uint64_t unhandled_ = 0;
  /// When output came last, or was handled last.
  std::optional<Time> last_;
  /// When output came last, or was asked for.
  Time heard_{};
  /// When a gap was asked for.
  Time asked_{};
};

}  // namespace meshbus
