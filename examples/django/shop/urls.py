"""Where everything is. A whole urlconf can be one offer."""

from django.urls import path

from faregate.django import paid_include

from . import views

notes = [path("<str:name>", views.note)]

urlpatterns = [
    path("report", views.report),
    path("summary", views.Summary.as_view()),
    path("notes/", paid_include("daily_report", notes)),
    path("health", views.health),
]
