#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/context.h"
#include "meshbus/events.h"
#include "meshbus/host_mesh.h"
#include "meshbus/rank_report.h"
#include "meshbus/region.h"
#include "meshbus/result.h"

/// A site seen as a whole: a snapshot of its hosts, meshes and ranks, then what changes. `meshbus
/// top`, the page and the metrics read this and nothing else.
///
///     auto site = must(meshbus::Site::watch(context, hosts));
///     site.settle(std::chrono::seconds(1));
///     auto view = site.view();                              // everything
///     while (site.wait(view.sequence, std::chrono::seconds(1)))
///       view = site.view(view.sequence);                    // what has changed since
///
/// A view is a plain value. Its ranks are shared and never change: copying a view is cheap.
namespace [[gnu::visibility("default")]] meshbus {

/// How a host stands.
enum class SiteHostState : std::uint8_t {
  connecting = 0,  ///< Its first answer has not come yet.
  up = 1,          ///< It answers.
  lost = 2,        ///< It does not answer: SiteHost::problem, SiteHost::since.
};
/// "up". Never null.
std::string_view to_string(SiteHostState state) noexcept;

/// A peer that has stopped taking what waits for it.
struct SiteQueue {
  std::string peer;                    ///< The ProcId of the peer, or the address of another host.
  std::uint64_t bytes = 0;             ///< Bytes that wait.
  std::uint64_t messages = 0;          ///< Messages that wait.
  std::chrono::milliseconds waits{0};  ///< Since it last took something.
};

/// The connection of a host's broker with that of another host.
struct SiteLink {
  std::string host;            ///< The address of the other host.
  bool is_up = false;          ///< There is a connection, in one direction or the other.
  std::uint64_t messages = 0;  ///< Messages that wait for the other host.
  std::uint64_t bytes = 0;     ///< Their bytes.
};

/// What the broker of a host counts, since it started.
struct SiteBroker {
  std::uint64_t incarnation = 0;       ///< After a restart it differs, and all counts start again.
  std::uint64_t received = 0;          ///< Messages from peers and links.
  std::uint64_t delivered = 0;         ///< Messages that were passed on.
  std::uint64_t returned = 0;          ///< Messages that went back to their senders.
  std::uint64_t dropped = 0;           ///< Messages that were dropped, for any reason.
  std::uint64_t held = 0;              ///< Messages that are queued now.
  std::uint64_t peers = 0;             ///< Peers that are registered now, inbound links included.
  std::uint64_t refused = 0;           ///< Refused connections, Hellos and messages.
  std::vector<SiteQueue> queues = {};  ///< Peers that do not keep up, most bytes first; at most 16.
  std::vector<SiteLink> links = {};    ///< Other hosts, by address; at most 64.
};

/// One host of the site.
struct SiteHost {
  HostAddr host = HostAddr::local(0);               ///< As it was named.
  SiteHostState state = SiteHostState::connecting;  ///< How it stands.
  std::chrono::system_clock::time_point since;      ///< When it came to stand so; our clock.
  ErrorCode code = ErrorCode::none;                 ///< Why it is lost.
  std::string problem;                              ///< The same as text.
  HostReport report;                                ///< Its own words; of a lost one the last.
  std::optional<std::chrono::system_clock::time_point>
      started;                         ///< When it was started, by its clock.
  std::string cgroup;                  ///< The cgroup that contains it; empty: none, or unknown.
  std::uint32_t cpus = 0;              ///< CPUs of its machine; 0 = unknown, as with the next ones.
  double load = 0;                     ///< Load average of its machine over a minute.
  std::uint64_t memory = 0;            ///< Bytes of memory of its machine.
  std::uint64_t memory_available = 0;  ///< Bytes of it that are free or can be freed.
  std::optional<SiteBroker> broker;    ///< Nothing: its broker does not tell (an older release).
  double messages_per_second = 0;      ///< Messages that its broker received, lately.
  std::uint64_t changed = 0;           ///< SiteView::sequence of the last change.
};

/// One rank of a mesh. Never changes once it is made: a change makes another one.
struct SiteRank {
  RankReport report;                         ///< State, place, usage, and its end.
  std::string last_line;                     ///< The last line that it wrote, exact bytes, cut.
  std::uint64_t queued_messages = 0;         ///< Messages that wait for it at its broker.
  std::uint64_t queued_bytes = 0;            ///< Their bytes.
  std::chrono::milliseconds queue_waits{0};  ///< Not 0: a slow peer; since it last took something.
  std::uint64_t changed = 0;                 ///< SiteView::sequence of the last change.
};

/// One mesh, put together of what all its hosts tell.
struct SiteMesh {
  std::string name;                 ///< With its uuid.
  Region region;                    ///< All its ranks, and how they are arranged.
  std::vector<HostAddr> hosts;      ///< All its hosts, also those not watched.
  std::string owner;                ///< ProcId of its launcher or controller.
  ProcKind kind = ProcKind::plain;  ///< Plain procs, or mesh procs.
  std::string command;              ///< For people.
  std::vector<std::shared_ptr<const SiteRank>> ranks;  ///< By rank; see SiteView.
  std::uint64_t changed = 0;  ///< SiteView::sequence of the last change of it or of a rank.
};

/// A controller, which supervises meshes. It is known by the host whose broker it is connected to.
struct SiteController {
  std::string controller;                           ///< Its ProcId.
  HostAddr host = HostAddr::local(0);               ///< Its host.
  SiteHostState state = SiteHostState::connecting;  ///< Up, or lost.
  std::chrono::system_clock::time_point since;      ///< When it came to stand so; our clock.
  std::uint64_t subscribers = 0;                    ///< Subscriptions to its events.
  std::uint64_t late_polls = 0;          ///< How often it asked its hosts later than it has to.
  std::vector<std::string> unreachable;  ///< Hosts that it cannot reach.
  std::uint64_t changed = 0;             ///< SiteView::sequence of the last change.
};

/// An entry of the event log of a host, or what was noticed of a controller.
struct SiteEvent {
  std::uint64_t sequence = 0;  ///< SiteView::sequence when it came.
  HostEvent event;             ///< What happened.
};

/// A site at one moment, or what has changed since another one.
struct SiteView {
  std::uint64_t sequence = 0;  ///< Counts the changes of the site.
  std::uint64_t since = 0;     ///< The view has what changed after this; 0 = everything there is.
  std::chrono::system_clock::time_point time;  ///< When the view was made.
  std::vector<SiteHost> hosts;                 ///< Those that changed, in the order given.
  std::vector<SiteController> controllers;     ///< Those that changed, in the order of the hosts.
  std::vector<SiteMesh> meshes;   ///< Those that changed, by name, with the ranks that changed.
  std::vector<std::string> gone;  ///< Meshes that no host knows any more.
  std::vector<SiteEvent> events;  ///< Those that came, oldest first.
  std::uint64_t cut = 0;          ///< Ranks that are left out, because there are too many.

  /// Takes over what a later view says has changed; it must begin where this one ends, or be
  /// complete. Events: the last SiteOptions::events. Views that do not fit change nothing: false.
  bool apply(const SiteView& later);
};
/// As one JSON object, for programs; share/schemas/site.json describes each field. Bytes that are
/// not UTF-8 become U+FFFD.
std::string to_json(const SiteView& view, int indent = -1);

/// What a site costs at most.
struct SiteOptions {
  /// Each host is asked so often what has changed; with more than 200 hosts less often, so that
  /// 200 are asked in that time.
  std::chrono::milliseconds period{1000};
  /// A host that does not answer for so long is lost. It is asked on.
  std::chrono::milliseconds limit{3000};
  std::uint64_t ranks =
      200'000;  ///< Ranks that are kept, about 1 KiB each; SiteView::cut counts others.
  std::uint64_t events = 1000;  ///< Events that are kept, the latest.
};

/// Watches a site. Each host is asked by a connection of its own: one that is lost, or silent, is
/// shown so and makes nothing slow. It only looks: the role `observe` is enough.
///
/// All functions may be called from any thread. Move-only. Changes are told in full even when they
/// were missed: a view after any `since` has the present state of all that changed after it; when
/// too much was forgotten meanwhile the view is complete (SiteView::since is 0).
class Site {
 public:
  /// Returns at once. Errors: configuration_error (no host), would_block, refused (after fork).
  [[nodiscard]] static Result<Site> watch(Context& context, std::vector<HostAddr> hosts,
                                          SiteOptions options = {});
  Site(Site&&) noexcept;
  Site& operator=(Site&&) noexcept;
  ~Site();

  /// Waits until each host has answered or is lost. False: not within that time.
  bool settle(std::chrono::milliseconds limit) const;
  /// What has changed after that sequence number; 0 = everything.
  SiteView view(std::uint64_t since = 0) const;
  /// Waits until something changes after that sequence number. False: not within that time.
  bool wait(std::uint64_t since, std::chrono::milliseconds limit) const;

  class Impl;
  explicit Site(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus
