#include "agent/host/services/update_fanout.h"

namespace meshbus::host {

void UpdateFanout::take_changed() {
  for (Mesh* mesh : table_.take_changed()) {
    publisher_.mark(*mesh);
    waits_.mark(*mesh);
    collections_.mark(*mesh);
    logs_.mark(*mesh);  // the last rank may have ended long after its output
  }
}

void UpdateFanout::flush() {
  take_changed();
  publisher_.flush();
  waits_.flush();
  collections_.flush();
  logs_.flush();
}

void UpdateFanout::publish() {
  take_changed();
  publisher_.flush();
}

void UpdateFanout::forget(Mesh& mesh) {
  publisher_.forget(mesh);
  logs_.forget(mesh);
}

}  // namespace meshbus::host
