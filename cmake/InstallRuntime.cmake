# `cmake --install build --prefix DIR` makes a relocatable folder: the launcher with the libraries that it needs beside it, the topology
# files and the documents. The compiler stays where its LLVM is.
set(runtime_tools lockstep-run lockstep-topo)
foreach(tool ${runtime_tools})
  # DT_RPATH, not DT_RUNPATH: the libraries find each other through it too.
  set_target_properties(${tool} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${tool} PRIVATE -Wl,--disable-new-dtags)
endforeach()
install(TARGETS ${runtime_tools} RUNTIME_DEPENDENCY_SET runtime_libraries RUNTIME DESTINATION bin)
# The C library and the loader must be the system's own.
install(RUNTIME_DEPENDENCY_SET runtime_libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv)\\.so"
  DIRECTORIES /usr/lib/x86_64-linux-gnu/openblas-openmp
  LIBRARY DESTINATION lib)
install(DIRECTORY docs/topologies DESTINATION share/lockstep)
install(FILES README.md DESTINATION share/lockstep)
