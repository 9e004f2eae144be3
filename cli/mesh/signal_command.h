#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus signal`
void add_signal(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
