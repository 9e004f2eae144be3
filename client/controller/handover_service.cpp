#include "client/controller/handover_service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/address/host_resource.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

/// An owner to which we have promised to take a mesh, and which has not handed it over after this
/// long, has changed its mind.
constexpr std::chrono::milliseconds kOfferLimit{3000};
/// At its end a controller waits this long for what its hosts have to say of its meshes when all
/// ranks have ended: exit reports may take 3 s.
constexpr std::chrono::milliseconds kLastReports{5000};

}  // namespace

bool HandoverService::begin_end(const std::string& reason, std::function<void()> done) {
  if (when_ended_) return false;
  when_ended_ = std::move(done);
  limit_end(options_.grace + options_.stop_limit);
  last_order_.reason = reason;
  last_order_.requester = gateway_.self().to_string();
  last_order_.grace_ms = static_cast<std::uint32_t>(options_.grace.count());
  return true;
}

void HandoverService::limit_end(std::chrono::milliseconds limit) {
  reactor_.cancel(end_timer_);
  end_timer_ = reactor_.after(limit, [this] {
    if (host_end_ != nullptr) {
      log::warn(std::to_string(host_end_->open()) +
                " hosts of this controller have not ended; they do when their leases lapse");
    } else {
      log::warn(std::to_string(supervisor_.live_owned()) +
                " meshes of this controller have not ended; they do when their leases lapse");
    }
    end_timer_ = 0;
    std::exchange(when_ended_, [] {})();
  });
}

Supervisor::Actions HandoverService::stop_all() {
  return supervisor_.stop_owned(last_order_, reactor_.now());
}

Supervisor::Actions HandoverService::note_offers() {
  const auto taken = std::erase_if(offered_, [this](const auto& offer) {
    const auto* const mesh = supervisor_.find(offer.first);
    return mesh != nullptr && supervisor_.is_owned(*mesh);
  });
  std::erase_if(offered_,
                [this](const auto& offer) { return reactor_.now() - offer.second > kOfferLimit; });
  return is_ending() && taken != 0 ? stop_all() : Supervisor::Actions();
}

void HandoverService::check_end() {
  if (!is_ending() || supervisor_.live_owned() != 0 || !offered_.empty()) return;
  // Subscribers are to hear how the ranks ended, if that can be known at all.
  if (!all_ended_) all_ended_ = reactor_.now();
  if (!supervisor_.has_told_owned() && reactor_.now() - *all_ended_ < kLastReports) return;
  if (!have_hosts_ended()) return;
  reactor_.cancel(std::exchange(end_timer_, 0));
  // Posted, because it may destroy the caller.
  reactor_.post([done = std::exchange(when_ended_, [] {})] { done(); });
}

bool HandoverService::have_hosts_ended() {
  if (host_end_ != nullptr) return host_end_->is_done();
  auto hosts = supervisor_.owned_hosts(/*that_end=*/true);
  // One that was handed to us a moment ago may not have said so yet; it is asked before it is
  // ended. One that comes later ends with its lease.
  for (const auto& [host, offered] : offered_hosts_) {
    if (reactor_.now() - offered <= kOfferLimit && std::ranges::find(hosts, host) == hosts.end())
      hosts.push_back(host);
  }
  if (hosts.empty()) return true;
  wire::ShutdownHostT order;
  order.reason = last_order_.reason;
  order.requester = last_order_.requester;
  order.grace_ms = last_order_.grace_ms;
  order.term = seat_.mark();
  const auto limit = options_.grace + options_.answer_limit;
  host_end_ = std::make_shared<HostEnd>(gateway_, supervisor_, std::move(hosts), std::move(order),
                                        limit, [this] { check_end(); });
  // The host whose broker carries the orders comes after the others, and each host is asked twice.
  limit_end(4 * limit);
  host_end_->begin();
  // It may be done at once, and has said so.
  return false;
}

void HandoverService::close() {
  is_closed_ = true;
  if (host_end_ != nullptr) host_end_->cancel();
  reactor_.cancel(end_timer_);
}

void HandoverService::on_offer_mesh(const Request& request, const wire::OfferMesh& message) {
  const auto mesh = message.mesh()->str();
  const auto refuse = [&](const std::string& why) {
    gateway_.bus()->refuse(
        request, Error(ErrorCode::refused, "controller " + gateway_.self().to_string() +
                                               " does not answer for mesh " + mesh + ": " + why));
  };
  if (const auto acts = seat_.check(); !acts) return gateway_.bus()->refuse(request, acts.error());
  if (options_.lease.count() == 0) return refuse("it only watches");
  if (when_ended_) return refuse("it is ending");
  if (!options_.mesh.empty()) return refuse("it watches " + options_.mesh + " alone");
  std::string missing;
  for (const auto* text : *message.hosts()) {
    const auto host = HostAddr::parse(text->string_view());
    if (!host) return gateway_.bus()->refuse(request, host.error().within("OfferMesh.hosts"));
    const bool is_watched =
        std::find(options_.hosts.begin(), options_.hosts.end(), *host) != options_.hosts.end();
    if (!is_watched && missing.size() < kTextLimit)
      missing += (missing.empty() ? "" : ", ") + host->to_string();
  }
  if (!missing.empty())
    return refuse("it does not watch " + missing +
                  "; its --hosts has to name every host of the mesh");
  wire::OfferAcceptedT accepted;
  accepted.owner = gateway_.self().to_string();
  accepted.lease_ms = static_cast<std::uint32_t>(options_.lease.count());
  accepted.can_restart = true;
  accepted.can_own_hosts = true;
  gateway_.bus()->answer(request, std::move(accepted));
  if (mesh != kHostResource) {
    offered_[mesh] = reactor_.now();
    return;
  }
  for (const auto* text : *message.hosts()) {
    if (const auto host = HostAddr::parse(text->string_view()))
      offered_hosts_[*host] = reactor_.now();
  }
}

void HandoverService::give_hosts(const Request& request, const wire::HandOver& message) {
  // Not only those that are known to be ours: one that was handed to us just now has not been heard
  // of. Its agent knows.
  std::vector<HostAddr> hosts;
  std::string missing;
  for (flatbuffers::uoffset_t i = 0; message.hosts() != nullptr && i < message.hosts()->size();
       ++i) {
    const auto host = HostAddr::parse(message.hosts()->Get(i)->string_view());
    if (!host) return gateway_.bus()->refuse(request, host.error().within("HandOver.hosts"));
    if (std::ranges::find(options_.hosts, *host) != options_.hosts.end()) {
      hosts.push_back(*host);
    } else if (missing.size() < kTextLimit) {
      missing += (missing.empty() ? "" : ", ") + host->to_string();
    }
  }
  if (hosts.empty() || !missing.empty())
    return gateway_.bus()->refuse(
        request, Error(ErrorCode::not_exist,
                       "controller " + gateway_.self().to_string() + " does not answer for " +
                           (missing.empty() ? "any of these hosts" : "host " + missing)));
  struct Asked {
    std::size_t open = 0;
    std::optional<Error> problem;
  };
  const auto asked = std::make_shared<Asked>(Asked{.open = hosts.size(), .problem = {}});
  for (const auto& host : hosts) {
    wire::HandOverT order;
    message.UnPackTo(&order);
    order.hosts.clear();
    order.term = seat_.mark();
    const OwnerUpdate owner{.owner = order.owner,
                            .lease = std::chrono::milliseconds(order.lease_ms),
                            .loss = order.loss};
    gateway_.bus()->request(
        Destination::to_agent(host), std::move(order), options_.answer_limit,
        [this, request, asked, host, owner](const Result<ControlMessage>& answer) {
          if (is_closed_) return;
          if (answer) {
            supervisor_.note_host_owner(host, owner);
          } else if (!asked->problem) {
            asked->problem = answer.error().within("host " + host.to_string());
          }
          if (--asked->open != 0) return;
          if (asked->problem) return gateway_.bus()->refuse(request, *asked->problem);
          gateway_.bus()->answer(request, wire::AckT());
        });
  }
}

void HandoverService::on_order_resize(const Request& request, const wire::OrderResize& message) {
  gateway_.bus()->refuse(
      request,
      Error(ErrorCode::refused,
            "mesh " + message.mesh()->str() + " was handed over to controller " +
                gateway_.self().to_string() +
                ", and only the launcher that made a mesh knows how its ranks are started: it "
                "keeps the size that it had then"));
}

void HandoverService::on_hand_over(const Request& request, const wire::HandOver& message,
                                   std::function<void(Supervisor::Actions)> on_done) {
  if (const auto acts = seat_.check(); !acts) return gateway_.bus()->refuse(request, acts.error());
  const auto name = message.mesh()->str();
  if (name == kHostResource) return give_hosts(request, message);
  const auto* const mesh = supervisor_.find(name);
  if (mesh == nullptr || !supervisor_.is_owned(*mesh))
    return gateway_.bus()->refuse(
        request, Error(ErrorCode::not_exist, "controller " + gateway_.self().to_string() +
                                                 " does not answer for a mesh '" + name + "'"));
  struct Asked {
    std::size_t open = 0;
    std::string problems;
    std::optional<ErrorCode> code;
  };
  const auto asked = std::make_shared<Asked>();
  std::vector<HostAddr> hosts;
  for (const auto& host : options_.hosts) {
    if (mesh->is_on(host)) hosts.push_back(host);
  }
  if (hosts.empty())
    return gateway_.bus()->refuse(
        request,
        Error(ErrorCode::not_exist,
              "no host of controller " + gateway_.self().to_string() + " has '" + name + "'"));
  asked->open = hosts.size();
  // Done on some hosts only, it would have no owner: it stays ours until it is done on all of them.
  supervisor_.hold(name);
  for (const auto& host : hosts) {
    wire::HandOverT order;
    message.UnPackTo(&order);
    order.term = seat_.mark();
    const auto on_answer = [this, request, asked, host, name,
                            on_done](const Result<ControlMessage>& answer) {
      if (is_closed_) return;
      // A host that has forgotten the mesh needs no owner for it.
      if (!answer && answer.error().code() != ErrorCode::not_exist) {
        if (!asked->code) asked->code = answer.error().code();
        asked->problems += (asked->problems.empty() ? "" : "; ") +
                           ("not on " + host.to_string() + ": " + answer.error().to_string());
      }
      if (--asked->open != 0) return;
      if (asked->code) {
        on_done(supervisor_.resume(name, reactor_.now()));
        return gateway_.bus()->refuse(request, Error(*asked->code, asked->problems));
      }
      supervisor_.let_go(name);
      on_done({});
      gateway_.bus()->answer(request, wire::AckT());
    };
    gateway_.bus()->request(Destination::to_agent(host), std::move(order), options_.answer_limit,
                            on_answer);
  }
}

}  // namespace meshbus
