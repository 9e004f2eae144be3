#include "broker/router/cast_fanout.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "broker/casts/cast_assembly.h"
#include "broker/router/relay_tables.h"
#include "common/bus/cast.h"
#include "common/wire/wire_region.h"
#include "meshbus/key.h"
#include "meshbus/name.h"
#include "wire/frame_generated.h"
#include "wire/relay_generated.h"
#include "wire/types_generated.h"

namespace meshbus {
namespace {

/// Copies on one host. No host has so many procs: a cast that names more is a mistake, or an
/// attack.
constexpr std::uint64_t kMostCopies = 65536;

/// Keys of the procs of a mesh on this host, by rank.
class ProcKeys {
 public:
  ProcKeys(const std::string& host, std::string_view mesh) {
    const std::size_t uuid = mesh.rfind('-');
    text_ = host + ',' + std::string(mesh.substr(0, uuid)) + '_';
    fixed_ = text_.size();
    if (uuid != std::string_view::npos) tail_ = mesh.substr(uuid);
  }
  std::uint64_t key_of(std::uint64_t rank) {
    text_.resize(fixed_);
    text_ += std::to_string(rank);
    text_ += tail_;
    return meshbus::key_of(text_);
  }

 private:
  std::string text_;
  std::size_t fixed_ = 0;
  std::string_view tail_;
};

/// Ranks of that host; more than kMostCopies when there are too many to count.
std::uint64_t count_ranks(const flatbuffers::Vector<const wire::CastRun*>& runs,
                          std::uint64_t host) {
  std::uint64_t ranks = 0;
  for (const auto* run : runs) {
    if (run->host() == host) ranks += std::min(run->count(), kMostCopies + 1);
    if (ranks > kMostCopies) break;
  }
  return ranks;
}

std::string with_front(const CastBody& cast, std::string_view mesh,
                       const std::vector<wire::CastRun>& runs, const wire::RegionT& view) {
  std::string body = cast_front(mesh, runs, view);
  body.append(cast.rest());
  return body;
}

/// What goes by the link in place of a body that the relay brings.
std::string stand_in(std::uint64_t number, Bytes body) {
  const std::string digest = digest_of(body);
  wire::DetachedCastT table;
  table.number = number;
  table.digest.assign(digest.begin(), digest.end());
  return encode_table<wire::DetachedCast>(table);
}

/// Errors: malformed_message, too_large.
Result<void> check(const wire::Envelope& envelope, const CastBody& cast, const Router& router) {
  if (envelope.kind() != wire::Kind::message && envelope.kind() != wire::Kind::call)
    return fail(ErrorCode::malformed_message, "only messages and calls are cast");
  const auto* mesh = cast.head().mesh();
  if (mesh == nullptr || !Name::parse(mesh->string_view()))
    return fail(ErrorCode::malformed_message, "a cast that names no mesh");
  const auto* runs = cast.head().runs();
  if (runs != nullptr && count_ranks(*runs, router.own().key()) > kMostCopies)
    return fail(ErrorCode::too_large, "a cast to more than " + std::to_string(kMostCopies) +
                                          " procs of " + router.own().address().to_string());
  return {};
}

}  // namespace

struct CastFanout::Spread {
  const wire::Envelope& envelope;
  const CastBody& cast;
  const wire::RegionT& view;
  Bytes body;
  MessagePart* detached;
  /// Runs of ranks on other hosts, by the keys of these.
  std::unordered_map<std::uint64_t, std::vector<wire::CastRun>> runs_by_host = {};
};

void CastFanout::spread(const wire::Envelope& envelope, Bytes body, MessagePart* detached,
                        Charge& charge) {
  const auto cast = CastBody::open(body);
  if (!cast) return router_.give_back(envelope, cast.error());
  if (auto checked = check(envelope, *cast, router_); !checked)
    return router_.give_back(envelope, checked.error());
  const auto region = from_wire(cast->head().view());
  if (!region) return router_.give_back(envelope, region.error().within("a cast"));
  // Every counter counts the copies as messages of their own; this one has arrived.
  ++counters_.handled;
  if (cast->head().runs() == nullptr) return;
  const auto view = to_wire(*region);
  Spread spread{envelope, *cast, *view, body, detached};
  if (envelope.source_host() == router_.own().key()) {
    for (const auto* run : *cast->head().runs())
      if (run->host() != router_.own().key()) spread.runs_by_host[run->host()].push_back(*run);
    send_to_hosts(spread, charge);
  }
  send_here(spread, charge);
}

void CastFanout::send_here(const Spread& spread, Charge& charge) {
  const bool is_detached = spread.detached != nullptr;
  const std::string own =
      is_detached ? std::string() : with_front(spread.cast, {}, {}, spread.view);
  const Bytes body = is_detached ? spread.body : Bytes(own);
  wire::Envelope copy = spread.envelope;
  copy.mutate_destination_host(router_.own().key());
  CastCredits& credits = queues_.cast_credits();
  const bool is_charged = charge.is_due();
  const CastCredits::Account account = is_charged ? credits.open(charge) : 0;
  ProcKeys keys(router_.own().address().to_string(), spread.cast.head().mesh()->string_view());
  MessagePart part;
  for (const auto* run : *spread.cast.head().runs()) {
    if (run->host() != router_.own().key()) continue;
    std::uint64_t rank = run->first();
    for (std::uint64_t i = 0; i < run->count(); ++i, rank += run->step()) {
      ++counters_.originated;
      copy.mutate_destination_proc(keys.key_of(rank));
      // The tap gets it as the message that it is to its receiver, so that it can be replayed.
      wire::Envelope plain = copy;
      plain.mutate_flags(copy.flags() & ~kFlagCast);
      router_.tap(plain, spread.cast.rest());
      if (is_detached) part.share(*spread.detached);
      const Peer* peer = router_.routes().find(copy.destination_proc());
      Charge copy_charge;
      if (is_charged && (peer == nullptr || !queues_.is_stalled(*peer)))
        copy_charge = credits.charge_copy(account, sizeof copy + body.size());
      router_.deliver_here(copy, body, is_detached ? &part : nullptr, copy_charge);
      if (copy_charge.is_due()) credits.release(account, copy_charge.bytes);
    }
  }
  if (!is_charged) return;
  if (const auto left = credits.close(account)) charge = *left;
}

std::vector<std::uint64_t> CastFanout::hosts_of(const Spread& spread, const Charge& charge) {
  std::vector<std::uint64_t> hosts;
  std::unordered_set<std::uint64_t> seen;
  wire::Envelope copy = spread.envelope;
  for (const auto* run : *spread.cast.head().runs()) {
    const std::uint64_t host = run->host();
    if (host == router_.own().key() || !seen.insert(host).second) continue;
    const Link* link = links_.find(host);
    const auto may = link == nullptr ? Result<void>() : Router::may_use(*link, charge);
    if (may) {
      hosts.push_back(host);
      continue;
    }
    ++counters_.originated;
    copy.mutate_destination_host(host);
    router_.give_back(copy, may.error());
  }
  return hosts;
}

void CastFanout::send_to_hosts(const Spread& spread, const Charge& charge) {
  const auto hosts = hosts_of(spread, charge);
  if (hosts.empty()) return;
  const bool is_large = spread.detached != nullptr && spread.envelope.lane() == wire::Lane::data;
  const std::uint64_t number = is_large ? relay_.send(hosts, *spread.detached) : 0;
  const std::string instead = number == 0 ? std::string() : stand_in(number, spread.body);
  wire::Envelope copy = spread.envelope;
  for (const std::uint64_t host : hosts) {
    if (!relay_.is_under_way(number, host)) {
      send_to_host(spread, host);
      continue;
    }
    ++counters_.originated;
    copy.mutate_destination_host(host);
    router_.tap(copy, spread.body);
    wire::Envelope without_body = copy;
    without_body.mutate_flags(copy.flags() | kFlagDetachedCast);
    Link& link = *links_.find(host);
    if (link.push(without_body, instead, nullptr)) continue;
    relay_.done(number, host);
    router_.give_back(copy, Router::queue_is_full(link));
  }
}

void CastFanout::send_to_host(const Spread& spread, std::uint64_t host) {
  ++counters_.originated;
  wire::Envelope copy = spread.envelope;
  copy.mutate_destination_host(host);
  Charge none;
  if (spread.detached != nullptr) {
    // As it is: a large body is not copied for the sake of a shorter list.
    MessagePart part;
    part.share(*spread.detached);
    router_.deliver(copy, spread.body, &part, none);
  } else {
    router_.deliver(copy,
                    with_front(spread.cast, spread.cast.head().mesh()->string_view(),
                               spread.runs_by_host.at(host), spread.view),
                    nullptr, none);
  }
}

}  // namespace meshbus
