// What a Controller says to who wants it to answer for a mesh, or another one to (docs/decisions/0020-handover.md).
#include <algorithm>

#include "client/controller/controller.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

void Controller::on_offer_mesh(const Request& request, const wire::OfferMesh& message) {
  const auto mesh = message.mesh()->str();
  const auto refuse = [&](const std::string& why) {
    bus_->refuse(request, Error(ErrorCode::refused, "controller " + self().to_string() + " does not answer for mesh " + mesh + ": " + why));
  };
  if (!options_.is_controller || options_.lease.count() == 0) return refuse("it only watches");
  if (when_ended_) return refuse("it is ending");
  if (!options_.mesh.empty()) return refuse("it watches " + options_.mesh + " alone");
  std::string missing;
  for (const auto* text : *message.hosts()) {
    const auto host = HostAddr::parse(text->string_view());
    if (!host) return bus_->refuse(request, host.error().within("OfferMesh.hosts"));
    const bool is_watched = std::find(options_.hosts.begin(), options_.hosts.end(), *host) != options_.hosts.end();
    if (!is_watched && missing.size() < kTextLimit) missing += (missing.empty() ? "" : ", ") + host->to_string();
  }
  if (!missing.empty()) return refuse("it does not watch " + missing + "; its --hosts has to name every host of the mesh");
  wire::OfferAcceptedT accepted;
  accepted.owner = self().to_string();
  accepted.lease_ms = static_cast<std::uint32_t>(options_.lease.count());
  bus_->answer(request, std::move(accepted));
  offered_[mesh] = reactor_.now();
}

void Controller::on_hand_over(const Request& request, const wire::HandOver& message) {
  const auto name = message.mesh()->str();
  const auto* const mesh = supervisor_.find(name);
  if (mesh == nullptr || !supervisor_.is_owned(*mesh))
    return bus_->refuse(request,
                        Error(ErrorCode::not_exist, "controller " + self().to_string() + " does not answer for a mesh '" + name + "'"));
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
    return bus_->refuse(request, Error(ErrorCode::not_exist, "no host of controller " + self().to_string() + " has '" + name + "'"));
  asked->open = hosts.size();
  // Done on some hosts only, it would be nobody's: we go on with it until it is done on all of them, or asked for again.
  supervisor_.hold(name);
  for (const auto& host : hosts) {
    wire::HandOverT order;
    message.UnPackTo(&order);
    const auto on_answer = [this, request, asked, host, name](const Result<ControlMessage>& answer) {
      if (is_closed_) return;
      // What it has forgotten needs nobody.
      if (!answer && answer.error().code() != ErrorCode::not_exist) {
        if (!asked->code) asked->code = answer.error().code();
        asked->problems += (asked->problems.empty() ? "" : "; ") + ("not on " + host.to_string() + ": " + answer.error().to_string());
      }
      if (--asked->open != 0) return;
      if (asked->code) return bus_->refuse(request, Error(*asked->code, asked->problems));
      supervisor_.let_go(name);
      arm();
      bus_->answer(request, wire::AckT());
    };
    bus_->request(Destination::to_agent(host), std::move(order), options_.answer_limit, on_answer);
  }
}

}  // namespace meshbus
