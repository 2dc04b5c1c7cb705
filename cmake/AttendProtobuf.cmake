# attend_add_proto_library(NAME ALIAS attend::x SOURCES a/b.proto ... [GRPC] [DEPS ...])
# Generates C++ from .proto files given relative to proto/, into <build>/proto, and compiles it. Callers include it as
# "attend/v1/attention.pb.h". The target generated_sources makes all of them without compiling any.
add_custom_target(generated_sources)

function(attend_add_proto_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "GRPC" "ALIAS" "SOURCES;DEPS")
  set(root ${PROJECT_SOURCE_DIR}/proto)
  set(out ${PROJECT_BINARY_DIR}/proto)
  file(MAKE_DIRECTORY ${out})
  set(generated)
  foreach(source IN LISTS arg_SOURCES)
    string(REGEX REPLACE "\\.proto$" "" stem ${source})
    set(files ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
    set(flags)
    if(arg_GRPC)
      list(APPEND files ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
      set(flags --grpc_out=${out} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(
      OUTPUT ${files}
      COMMAND protobuf::protoc --proto_path=${root} --cpp_out=${out} ${flags} ${source}
      DEPENDS ${root}/${source}
      COMMENT "Generating C++ from ${source}"
      VERBATIM)
    list(APPEND generated ${files})
  endforeach()
  add_custom_target(${name}_sources DEPENDS ${generated})
  add_dependencies(generated_sources ${name}_sources)
  add_library(${name} STATIC ${generated})
  add_library(${arg_ALIAS} ALIAS ${name})
  target_include_directories(${name} SYSTEM PUBLIC ${out})
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf ${arg_DEPS})
  if(arg_GRPC)
    target_link_libraries(${name} PUBLIC gRPC::grpc++)
  endif()
endfunction()
