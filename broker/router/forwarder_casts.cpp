// Messages to the ranks of a mesh (spec 7.4): one comes, many leave.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/observe/tap.h"
#include "broker/router/forwarder.h"
#include "common/bus/cast.h"
#include "common/wire/wire_region.h"
#include "meshbus/key.h"
#include "meshbus/name.h"
#include "wire/frame_generated.h"
#include "wire/types_generated.h"

namespace meshbus {
namespace {

/// On one host. No host has so many procs; who names more has made a mistake, or means harm.
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

}  // namespace

bool Forwarder::fan_out(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart,
                        std::uint64_t debtor) {
  const auto cast = CastBody::open(body);
  if (!cast || (envelope.kind() != wire::Kind::message && envelope.kind() != wire::Kind::call)) {
    give_back(envelope,
              cast ? Error(ErrorCode::malformed_message, "only messages and calls are cast")
                   : cast.error());
    return false;
  }
  const auto* mesh = cast->head().mesh();
  if (mesh == nullptr || !Name::parse(mesh->string_view())) {
    give_back(envelope, Error(ErrorCode::malformed_message, "a cast that names no mesh"));
    return false;
  }
  const auto region = from_wire(cast->head().view());
  if (!region) {
    give_back(envelope, region.error().within("a cast"));
    return false;
  }
  const auto* runs = cast->head().runs();
  if (runs != nullptr && count_ranks(*runs, own_key_) > kMostCopies) {
    give_back(envelope,
              Error(ErrorCode::too_large, "a cast to more than " + std::to_string(kMostCopies) +
                                              " procs of " + options_.host.to_string()));
    return false;
  }
  // The copies are messages of their own, in every counter; this one has arrived.
  ++counters_.handled;
  if (runs == nullptr) return false;
  const auto view = to_wire(*region);
  if (envelope.source_host() == own_key_) cast_on(envelope, *cast, *view, body, apart, debtor);
  return cast_here(envelope, *cast, *view, body, apart, debtor);
}

bool Forwarder::cast_here(const wire::Envelope& envelope, const CastBody& cast,
                          const wire::RegionT& view, Bytes body, zmq::message_t* apart,
                          std::uint64_t debtor) {
  const std::size_t size = sizeof envelope + body.size();
  std::string own;
  if (apart == nullptr) {
    own = with_front(cast, {}, {}, view);
    body = own;
  }
  CastDebt* owed = nullptr;
  std::uint64_t debt = Debts::kNobody;
  if (debtor != Debts::kNobody && envelope.lane() == wire::Lane::data) {
    debt = next_cast_debt_++;
    // A byte until all copies are counted: some may leave meanwhile.
    owed = &cast_debts_.emplace(debt, CastDebt{debtor, size, 1}).first->second;
  }
  wire::Envelope copy = envelope;
  copy.mutate_destination_host(own_key_);
  const std::size_t copy_size = sizeof copy + body.size();
  ProcKeys keys(options_.host.to_string(), cast.head().mesh()->string_view());
  zmq::message_t part;
  for (const auto* run : *cast.head().runs()) {
    if (run->host() != own_key_) continue;
    std::uint64_t rank = run->first();
    for (std::uint64_t i = 0; i < run->count(); ++i, rank += run->step()) {
      ++counters_.originated;
      copy.mutate_destination_proc(keys.key_of(rank));
      if (tap_ != nullptr) [[unlikely]] {
        // As the message that it is to its receiver, so that it can be replayed.
        wire::Envelope plain = copy;
        plain.mutate_flags(copy.flags() & ~kFlagCast);
        tap_->copy(plain, cast.rest());
      }
      if (apart != nullptr) part.copy(*apart);
      const bool is_owed = owed != nullptr && !is_stuck(routes_.find(copy.destination_proc()));
      if (is_owed) owed->left += copy_size;
      const bool is_kept = deliver_local(copy, body, apart == nullptr ? nullptr : &part,
                                         is_owed ? debt : Debts::kNobody);
      if (is_owed && !is_kept) owed->left -= copy_size;
    }
  }
  if (owed == nullptr) return false;
  if (--owed->left > 0) return true;
  cast_debts_.erase(debt);
  return false;
}

bool Forwarder::is_stuck(const Peer* peer) const {
  return peer != nullptr && peer->waits_since != Reactor::Time{} &&
         reactor_.now() - peer->waits_since >= kPatience;
}

void Forwarder::cast_on(const wire::Envelope& envelope, const CastBody& cast,
                        const wire::RegionT& view, Bytes body, zmq::message_t* apart,
                        std::uint64_t debtor) {
  std::vector<std::uint64_t> hosts;  // in the order of their first ranks
  std::unordered_map<std::uint64_t, std::vector<wire::CastRun>> runs;
  for (const auto* run : *cast.head().runs()) {
    if (run->host() == own_key_) continue;
    auto& of_host = runs[run->host()];
    if (of_host.empty()) hosts.push_back(run->host());
    of_host.push_back(*run);
  }
  wire::Envelope copy = envelope;
  std::erase_if(hosts, [&](std::uint64_t host) {
    const Link* link = find_link(host);
    const auto may = link == nullptr ? Result<void>() : may_use(*link, debtor);
    if (may) return false;
    ++counters_.originated;
    copy.mutate_destination_host(host);
    give_back(copy, may.error());
    return true;
  });
  if (hosts.empty()) return;
  const bool is_large = apart != nullptr && envelope.lane() == wire::Lane::data;
  const std::uint64_t number = is_large ? relay(hosts, *apart) : 0;
  const std::string instead = number == 0 ? std::string() : elsewhere(number, body);
  zmq::message_t part;
  for (const std::uint64_t host : hosts) {
    ++counters_.originated;
    copy.mutate_destination_host(host);
    if (relays_.is_under_way(number, host)) {
      if (tap_ != nullptr) [[unlikely]]
        tap_->copy(copy, body);
      wire::Envelope without = copy;
      without.mutate_flags(copy.flags() | kFlagElsewhere);
      Link* link = find_link(host);
      if (link->push(without, instead, nullptr)) continue;
      relays_.here(number, host, reactor_.now());
      give_back(copy, queue_is_full(*link));
    } else if (apart == nullptr) {
      deliver(copy, with_front(cast, cast.head().mesh()->string_view(), runs.at(host), view),
              nullptr, Debts::kNobody);
    } else {
      // As it is: a large body is not copied for the sake of a shorter list.
      part.copy(*apart);
      deliver(copy, body, &part, Debts::kNobody);
    }
  }
}

void Forwarder::release_cast(std::uint64_t id, std::size_t bytes) {
  const auto found = cast_debts_.find(id);
  if (found == cast_debts_.end()) return;
  CastDebt& debt = found->second;
  debt.left -= std::min(bytes, debt.left);
  if (debt.left > 0) return;
  const CastDebt paid = debt;
  cast_debts_.erase(found);
  tell_released(paid.debtor, paid.size);
}

}  // namespace meshbus
