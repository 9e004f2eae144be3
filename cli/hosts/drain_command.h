#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus drain`
void add_drain(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
