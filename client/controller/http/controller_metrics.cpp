#include "client/controller/http/controller_metrics.h"

namespace meshbus {
namespace {

/// A controller that starts again is another process, whose metrics start again, too.
constexpr std::uint64_t kOneLife = 1;

}  // namespace

ControllerMetrics::ControllerMetrics() {
  metrics_.set({"meshbus_build_info", "Always 1; the label has the version of meshbus."}, 1,
               {{"version", MESHBUS_VERSION}});
  set({});
  set_readers(0);
}

void ControllerMetrics::set(const ControllerCounts& counts) {
  const auto gauge = [this](const char* name, const char* help, std::uint64_t value) {
    metrics_.set({name, help}, static_cast<double>(value));
  };
  metrics_.follow({"meshbus_controller_polls_total", "Polls of the hosts."}, kOneLife,
                  counts.polls);
  metrics_.follow(
      {"meshbus_controller_late_polls_total", "Polls that were later than twice their interval."},
      kOneLife, counts.late_polls);
  metrics_.follow({"meshbus_controller_events_total", "Events that the controller told."}, kOneLife,
                  counts.events);
  gauge("meshbus_controller_up", "Whether a broker has taken the controller.",
        counts.is_up ? 1 : 0);
  gauge("meshbus_controller_acting",
        "Whether the controller acts; 0 = it is one of a pair, and stands by.",
        counts.is_acting ? 1 : 0);
  gauge("meshbus_controller_term", "The last term of its pair that the controller knows of.",
        counts.term);
  gauge("meshbus_controller_subscribers", "Subscriptions to the controller.", counts.subscribers);
  gauge("meshbus_controller_hosts", "Hosts that the controller watches.", counts.hosts);
  gauge("meshbus_controller_unreachable_hosts", "Hosts of them that do not answer.",
        counts.unreachable);
  gauge("meshbus_controller_meshes", "Meshes that the controller knows.", counts.meshes);
  gauge("meshbus_controller_owned_meshes",
        "Meshes with live ranks that the controller answers for.", counts.owned);
  gauge("meshbus_controller_ranks", "Ranks of the meshes that the controller knows.", counts.ranks);
  gauge("meshbus_controller_live_ranks",
        "Ranks of them that live, or did when their host last answered.", counts.live);
  gauge("meshbus_controller_unheard_ranks", "Live ranks whose host does not answer.",
        counts.unheard);
  gauge("meshbus_controller_failed_ranks", "Ranks of them that have failed.", counts.failed);
}

void ControllerMetrics::set_readers(std::size_t readers) {
  metrics_.set({"meshbus_controller_page_readers", "Open streams of the page."},
               static_cast<double>(readers));
}

}  // namespace meshbus
