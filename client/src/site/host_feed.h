#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "client/src/site/site_table.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"

namespace meshbus {

/// Asks one host of a site again and again what has changed, by a connection of its own, and writes
/// it into the table. Lives on the reactor's thread.
class HostFeed {
 public:
  struct Options {
    HostAddr host;
    std::chrono::milliseconds period;
    std::chrono::milliseconds limit;
    /// Writes into the options of a session how to come to the broker of a host.
    std::function<void(const HostAddr&, Session::Options&)> reach;
  };
  /// `on_change`: something may have changed in the table.
  HostFeed(Reactor& reactor, SiteTable& table, Options options, std::function<void()> on_change);
  ~HostFeed();
  HostFeed(const HostFeed&) = delete;
  HostFeed& operator=(const HostFeed&) = delete;

  /// Asks the agent of the host something else; see SiteFeed::request().
  void request(const ControlBody& body, std::chrono::milliseconds limit, Bus::Answer answer);

 private:
  /// Questions about everything, one after the other.
  struct Round {
    /// Changes with each connection and each round: an answer of an earlier one is not ours.
    std::uint64_t number = 0;
    bool is_running = false;
    /// Where the list goes on; an older agent: the last mesh of the page before.
    std::string from = {};
    std::uint64_t from_rank = 0;
    /// The list has everything, and these are its meshes so far.
    bool is_complete = false;
    std::set<std::string, std::less<>> names = {};
    /// Numbers of the first page, for the next round.
    std::uint64_t sequence = 0;
    std::uint64_t agent = 0;
  };
  /// What the next round is to begin with.
  struct Position {
    std::uint64_t since = 0;
    std::uint64_t agent = 0;        ///< The incarnation that `since` is a number of.
    std::uint64_t events_from = 0;  ///< Where the next events are in the log of the host.
    std::uint64_t events_end = 0;   ///< Where that log ended, as the host said last.
    bool has_events_from = false;
    bool is_broker_mute = false;  ///< The broker is of an older release, which does not tell.
    int controller_rounds = 0;    ///< Rounds until a controller is looked for again.
  };

  void open();
  void close();
  void on_tick();
  void lose(const Error& error);
  template <typename Question>
  void ask(const Destination& to, Question question,
           void (HostFeed::*then)(const Result<ControlMessage>&));
  /// One round: what has changed, page by page; new events; the broker.
  void ask_meshes();
  void on_meshes(const Result<ControlMessage>& answer);
  Result<void> take_meshes(const wire::MeshList& list);
  /// The last page is there.
  void finish_meshes();
  /// An agent of an older release says in an answer of its own how it is.
  void on_host(const Result<ControlMessage>& answer);
  void take_facts(const wire::HostState& state);
  void ask_events();
  void ask_broker();
  void on_broker(const Result<ControlMessage>& answer);
  void on_events(const Result<ControlMessage>& answer);
  /// A controller may be connected there.
  void ask_controller();
  void on_controller(const Result<ControlMessage>& answer);
  void begin_round();
  void end_round();
  /// No answer is awaited any more.
  void drop_round();

  Reactor& reactor_;
  SiteTable& table_;
  Options options_;
  std::function<void()> on_change_;
  std::uint64_t incarnation_;
  std::unique_ptr<Bus> bus_;
  Reactor::TimerId timer_ = 0;
  /// The broker refused us: another connection is tried after a while.
  bool is_refused_ = false;
  Round round_;
  Position position_;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
