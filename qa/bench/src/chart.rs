//! Draws charts. Only this module uses the plotting library.

use kuva::prelude::{BarPlot, Layout, LegendPosition, LinePlot, Plot, TickFormat};
use seawall_measure::human::rounded;
use std::sync::Arc;

/// A series of (x, y) points with a name and a color.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// The name in the legend.
    pub name: &'a str,
    /// The color, in CSS notation.
    pub color: &'a str,
    /// The points; all coordinates must be positive.
    pub points: Vec<(f64, f64)>,
}

/// The titles of a chart and its axes.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    /// The title above the chart.
    pub title: &'a str,
    /// The title of the x axis.
    pub x: &'a str,
    /// The title of the y axis.
    pub y: &'a str,
}

/// Draws lines over two logarithmic axes, as an SVG document.
#[must_use]
pub fn log_log(names: &Names<'_>, series: &[Series<'_>]) -> String {
    let line = |one: &Series<'_>| {
        let line = LinePlot::new().with_data(one.points.clone()).with_color(one.color);
        Plot::Line(line.with_stroke_width(2.5).with_legend(one.name))
    };
    let plots: Vec<Plot> = series.iter().map(line).collect();
    let digits = TickFormat::Custom(Arc::new(tick));
    let layout = Layout::auto_from_plots(&plots)
        .with_title(names.title)
        .with_x_label(names.x)
        .with_y_label(names.y)
        .with_log_scale()
        .with_tick_format(digits)
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_width(560.0)
        .with_height(340.0);
    scalable(kuva::render_to_svg(plots, layout))
}

/// Draws groups of bars, one bar per series in each group, as an SVG document.
///
/// A series has a name and a color. A group has the name below its bars, and one value per series.
#[must_use]
pub fn bars(names: &Names<'_>, series: &[(&str, &str)], groups: &[(String, Vec<f64>)]) -> String {
    let group = |plot: BarPlot, (name, values): &(String, Vec<f64>)| {
        let colors = series.iter().map(|(_, color)| *color);
        plot.with_group(name.as_str(), values.iter().copied().zip(colors).collect::<Vec<_>>())
    };
    let plot = groups.iter().fold(BarPlot::new(), group);
    let plot = plot.with_legend(series.iter().map(|(name, _)| *name).collect());
    let plots = vec![Plot::Bar(plot)];
    let layout = Layout::auto_from_plots(&plots)
        .with_title(names.title)
        .with_x_label(names.x)
        .with_y_label(names.y)
        .with_tick_format(TickFormat::Custom(Arc::new(tick)))
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_width(900.0)
        .with_height(360.0);
    scalable(kuva::render_to_svg(plots, layout))
}

/// Adds the view box that lets a page scale the chart; without one, a narrow window crops it.
fn scalable(svg: String) -> String {
    let head = svg.split('>').next().unwrap_or_default();
    let size = |name: &str| head.split_once(&format!("{name}=\""))?.1.split('"').next();
    match (size(" width"), size(" height")) {
        (Some(width), Some(height)) if !head.contains("viewBox") => {
            svg.replacen("<svg ", &format!("<svg viewBox=\"0 0 {width} {height}\" "), 1)
        }
        _ => svg,
    }
}

/// Formats a number on an axis in few characters: `20M`, `10k`, `5,000`, `0.2`.
fn tick(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", rounded(value / 1e6)),
        1e4.. => format!("{}k", rounded(value / 1e3)),
        1.0.. => rounded(value),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_drawn_under_its_name() {
        let names = Names { title: "Rates", x: "ways", y: "a second" };
        let groups = [("one".to_owned(), vec![1.0, 2.0]), ("two".to_owned(), vec![3.0, 4.0])];
        let svg = bars(&names, &[("all", "#112233"), ("few", "#445566")], &groups);
        assert!(svg.starts_with("<svg viewBox=\"0 0 900 360\" "), "{svg}");
        for part in ["one", "two", "all", "few", "Rates"] {
            assert!(svg.contains(&format!(">{part}<")), "{part}: {svg}");
        }
        assert!(svg.matches("#112233").count() >= 2 && svg.matches("#445566").count() >= 2);
    }

    #[test]
    fn places_on_an_axis_are_told_apart() {
        let told = ["200M", "1M", "500k", "10k", "5,000", "5", "0.2", "0.01"];
        assert_eq!([2e8, 1e6, 5e5, 1e4, 5e3, 5.0, 0.2, 0.01].map(tick), told);
    }
}
