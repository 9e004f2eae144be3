#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/host/model/proc_table.h"
#include "agent/host/replies/collection.h"
#include "common/bus/bus.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus::host {

/// Collects the answers of the ranks of this host to one question, and passes them on reduced
/// (schemas/replies.fbs). A proc answers for itself alone, and only when it was asked. Lives on the
/// reactor's thread.
class Collections {
 public:
  /// Open questions, of one asker and of all.
  static constexpr std::size_t kMostOfAsker = 256;
  static constexpr std::size_t kMost = 1024;
  /// Ranks of all of them together.
  static constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 20;
  /// The last answer of a proc may come so long after its end is known.
  static constexpr std::chrono::milliseconds kLastAnswerLimit{250};
  /// A proc that ended no longer ago may have heard the question: the question and this order come
  /// on different connections.
  static constexpr std::chrono::nanoseconds kHeardLimit = std::chrono::seconds(2);

  struct Events {
    std::function<void(const ProcId&)> on_asker;  ///< A question of that asker is open.
    std::function<void(const ProcId&)> on_idle;   ///< No question of that asker is open any more.
  };
  Collections(Bus& bus, ProcTable& table, HostAddr host, Events events);
  ~Collections();
  Collections(const Collections&) = delete;
  Collections& operator=(const Collections&) = delete;

  /// A message for a port of the agent.
  void on_data(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body);
  /// Something of that mesh has changed: flush() checks which procs have ended.
  void mark(const Mesh& mesh) {
    if (!open_.empty()) marked_.insert(mesh.name);
  }
  void flush();
  /// The connection of that asker has ended.
  void drop(const std::string& asker);
  bool has(const std::string& asker) const { return askers_.contains(asker); }

 private:
  struct Member {
    std::uint64_t rank = 0;  // its create rank
    std::uint64_t incarnation = 0;
  };
  struct Open {
    Open(Collection what, ProcId by, const wire::Envelope& from, const wire::CallHeader& with)
        : collection(std::move(what)), asker(std::move(by)), envelope(from), header(with) {}

    Collection collection;
    ProcId asker;
    wire::Envelope envelope;
    wire::CallHeader header;
    std::string mesh = {};
    bool has_parts = false;
    std::vector<Member> members = {};
    std::unordered_map<std::uint64_t, std::uint64_t> index_of_proc = {};  // by key
    std::set<std::uint64_t> ending = {};  // indices whose proc has ended
    Reactor::TimerId limit = 0;
    Reactor::TimerId part = 0;
  };

  Result<void> begin(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body);
  /// Its members, as they are now.
  void fill(Open& open, const CollectOrder& order, const Mesh& mesh) const;
  void on_answer(const wire::Envelope& envelope, Bytes body);
  void on_end(const wire::Envelope& envelope, Bytes body);
  void look(std::uint64_t ticket, Open& open);
  void give_up(std::uint64_t ticket, std::uint64_t index);
  /// Answers when all is in, and tells what is due.
  void go_on(std::uint64_t ticket);
  void send_part(std::uint64_t ticket);
  void finish(std::uint64_t ticket);
  void remove(std::uint64_t ticket);

  Bus& bus_;
  ProcTable& table_;
  HostAddr host_;
  Events events_;
  std::map<std::uint64_t, Open> open_;  // by ticket
  std::uint64_t num_ranks_ = 0;         // of all of them
  std::map<std::string, std::size_t> askers_;
  std::set<std::string> marked_;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus::host
