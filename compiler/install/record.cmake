# Part of an install: writes down what came where, for uninstall.cmake. A component (of a part, or of a
# test) has a list of its own; a package has none.
if(NOT "$ENV{DESTDIR}" MATCHES "_CPack_Packages")
  set(files ${CMAKE_INSTALL_MANIFEST_FILES})
  list(TRANSFORM files PREPEND "$ENV{DESTDIR}")
  list(JOIN files "\n" text)
  set(suffix "")
  if(CMAKE_INSTALL_COMPONENT)
    set(suffix "_${CMAKE_INSTALL_COMPONENT}")
  endif()
  file(WRITE "${list_name}${suffix}.txt" "${text}\n")
endif()
