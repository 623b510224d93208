// Decodes the document around the graph: the signature that pairs inputs with
// parameters and buffers, module calls, symbol ranges and versions.
#include "compiler/import/pt2/GraphReader.h"

using namespace lockstep;
using namespace lockstep::pt2;

namespace {
struct InputKind {
  std::string_view name;
  InputSpec::Kind kind;
  const char *target; ///< the field that names the model's side
};
struct OutputKind {
  std::string_view name;
  OutputSpec::Kind kind;
  const char *target;
};
using In = InputSpec::Kind;
using Out = OutputSpec::Kind;
const InputKind inputKinds[] = {
    {"user_input", In::UserInput, nullptr},
    {"parameter", In::Parameter, "parameter_name"},
    {"buffer", In::Buffer, "buffer_name"},
    {"tensor_constant", In::TensorConstant, "tensor_constant_name"},
    {"custom_obj", In::CustomObject, "custom_obj_name"},
    {"token", In::Token, nullptr},
    {"constant_input", In::ConstantInput, "name"},
};
const OutputKind outputKinds[] = {
    {"user_output", Out::UserOutput, nullptr},
    {"loss_output", Out::LossOutput, nullptr},
    {"buffer_mutation", Out::BufferMutation, "buffer_name"},
    {"parameter_mutation", Out::ParameterMutation, "parameter_name"},
    {"gradient_to_parameter", Out::GradientToParameter, "parameter_name"},
    {"gradient_to_user_input", Out::GradientToUserInput, "user_input_name"},
    {"user_input_mutation", Out::UserInputMutation, "user_input_name"},
    {"token", Out::Token, nullptr},
};
} // namespace

std::string_view pt2::inputKindName(InputSpec::Kind kind) {
  for (const InputKind &entry : inputKinds)
    if (entry.kind == kind)
      return entry.name;
  return "";
}

/// `arg` is a whole argument in user inputs and outputs, else {name} alone.
static Status readSpecArgument(GraphReader &reader, const JsonPlace &place,
                               bool isUnion, Argument &out) {
  return field(place, "arg", [&](const JsonPlace &argument) {
    if (isUnion)
      return reader.readArgument(argument, out);
    return readField(argument, "name",
                     out.value.emplace<TensorArgument>().name);
  });
}

Status GraphReader::readInputSpec(const JsonPlace &place, InputSpec &out) {
  return readUnion(
      place, [&](const std::string &name, const JsonPlace &spec) -> Status {
        const InputKind *known = nullptr;
        for (const InputKind &entry : inputKinds)
          if (entry.name == name)
            known = &entry;
        if (!known)
          return place.error("unknown kind '" + name.substr(0, 80) +
                             "' of an input");
        out.kind = known->kind;
        if (known->target)
          LOCKSTEP_RETURN_IF_ERROR(readField(spec, known->target, out.target));
        if (out.kind == In::Buffer)
          LOCKSTEP_RETURN_IF_ERROR(
              readOptionalField(spec, "persistent", out.persistent));
        if (out.kind == In::ConstantInput)
          return field(spec, "value", [&](const JsonPlace &value) {
            return readArgument(value, out.argument);
          });
        return readSpecArgument(*this, spec, out.kind == In::UserInput,
                                out.argument);
      });
}

Status GraphReader::readOutputSpec(const JsonPlace &place, OutputSpec &out) {
  return readUnion(
      place, [&](const std::string &name, const JsonPlace &spec) -> Status {
        const OutputKind *known = nullptr;
        for (const OutputKind &entry : outputKinds)
          if (entry.name == name)
            known = &entry;
        if (!known)
          return place.error("unknown kind '" + name.substr(0, 80) +
                             "' of an output");
        out.kind = known->kind;
        if (known->target)
          LOCKSTEP_RETURN_IF_ERROR(readField(spec, known->target, out.target));
        return readSpecArgument(*this, spec, out.kind == Out::UserOutput,
                                out.argument);
      });
}

Status GraphReader::readModuleCall(const JsonPlace &place, ModuleCall &out) {
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "fqn", out.fqn));
  return optionalField(place, "signature", [&](const JsonPlace &signature) {
    out.hasSignature = true;
    LOCKSTEP_RETURN_IF_ERROR(readField(signature, "in_spec", out.inSpec));
    LOCKSTEP_RETURN_IF_ERROR(readField(signature, "out_spec", out.outSpec));
    return optionalField(signature, "forward_arg_names",
                         [&](const JsonPlace &names) {
                           return readArray(names, out.forwardArgNames);
                         });
  });
}

Status GraphReader::readSignature(const JsonPlace &place) {
  LOCKSTEP_RETURN_IF_ERROR(
      field(place, "input_specs", [&](const JsonPlace &specs) {
        return readArray(specs, program.inputSpecs,
                         [&](const JsonPlace &element, InputSpec &spec) {
                           return readInputSpec(element, spec);
                         });
      }));
  return field(place, "output_specs", [&](const JsonPlace &specs) {
    return readArray(specs, program.outputSpecs,
                     [&](const JsonPlace &element, OutputSpec &spec) {
                       return readOutputSpec(element, spec);
                     });
  });
}

Status GraphReader::readRangeConstraints(const JsonPlace &place) {
  return forEachField(
      place, [&](const std::string &symbol, const JsonPlace &range) {
        RangeConstraint &constraint = program.rangeConstraints[symbol];
        LOCKSTEP_RETURN_IF_ERROR(
            optionalField(range, "min_val", [&](const JsonPlace &value) {
              return read(value, constraint.min.emplace());
            }));
        return optionalField(range, "max_val", [&](const JsonPlace &value) {
          return read(value, constraint.max.emplace());
        });
      });
}

Status GraphReader::readProgram(const JsonPlace &place) {
  // The version comes first: other majors may differ in everything else.
  LOCKSTEP_RETURN_IF_ERROR(
      field(place, "schema_version", [&](const JsonPlace &version) {
        LOCKSTEP_RETURN_IF_ERROR(
            readField(version, "major", program.schemaMajor));
        LOCKSTEP_RETURN_IF_ERROR(
            readField(version, "minor", program.schemaMinor));
        if (program.schemaMajor != 8)
          return version
              .error("schema version " + std::to_string(program.schemaMajor) +
                     "." + std::to_string(program.schemaMinor) +
                     " is not supported; expected 8.x")
              .remedy("export the model with torch 2.6 or later of the same "
                      "schema");
        return Status::success();
      }));
  LOCKSTEP_RETURN_IF_ERROR(
      readOptionalField(place, "torch_version", program.torchVersion));
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "opset_version", [&](const JsonPlace &versions) {
        return forEachField(
            versions, [&](const std::string &name, const JsonPlace &value) {
              return read(value, program.opsetVersion[name]);
            });
      }));
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "verifiers", [&](const JsonPlace &verifiers) {
        return readArray(verifiers, program.verifiers);
      }));
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "range_constraints", [&](const JsonPlace &ranges) {
        return readRangeConstraints(ranges);
      }));
  return field(place, "graph_module", [&](const JsonPlace &module) {
    LOCKSTEP_RETURN_IF_ERROR(
        field(module, "graph", [&](const JsonPlace &graph) {
          return readGraph(graph, program.graph);
        }));
    LOCKSTEP_RETURN_IF_ERROR(
        field(module, "signature", [&](const JsonPlace &signature) {
          return readSignature(signature);
        }));
    return optionalField(
        module, "module_call_graph", [&](const JsonPlace &calls) {
          return readArray(calls, program.moduleCalls,
                           [&](const JsonPlace &element, ModuleCall &call) {
                             return readModuleCall(element, call);
                           });
        });
  });
}
